# SPDX-License-Identifier: Apache-2.0
# libwireclient: what libddict needs (no libsodium). libwire: everything. Both want libbase at the final link.
noinst_LTLIBRARIES += libwireclient.la libwire.la
libwireclient_la_SOURCES = runtime/wire/msg.c runtime/wire/msg.h runtime/wire/lane.c \
  runtime/wire/lane.h runtime/wire/attach.c runtime/wire/attach.h runtime/wire/status_page.h \
  runtime/wire/probe.h
libwireclient_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
libwire_la_SOURCES = runtime/wire/link.c runtime/wire/link.h runtime/wire/fabric/channel.h \
  runtime/wire/fabric/fabric.h runtime/wire/fabric/fabric_find.h \
  runtime/wire/fabric/fabric_memory.h runtime/wire/fabric/fabric_types.h \
  runtime/wire/conn.c runtime/wire/conn_open.c runtime/wire/conn_parts.c \
  runtime/wire/conn_counts.c runtime/wire/conn_counts.h runtime/wire/conn_sealed.c \
  runtime/wire/conn_strangers.c runtime/wire/seal.c \
  runtime/wire/seal.h runtime/wire/conn_inside.h runtime/wire/conn.h runtime/wire/auth.c \
  runtime/wire/auth.h runtime/wire/event.h runtime/wire/handshake.c runtime/wire/handshake.h \
  runtime/wire/identity.h \
  runtime/wire/out.c runtime/wire/out.h runtime/wire/live.c runtime/wire/live.h runtime/wire/net.c \
  runtime/wire/loop.c runtime/wire/loop.h
libwire_la_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS) $(OFI_CFLAGS)
libwire_la_LIBADD = libwireclient.la $(SODIUM_LIBS)
if HAVE_OFI
libwire_la_SOURCES += runtime/wire/fabric/fabric.c runtime/wire/fabric/fabric_find.c \
  runtime/wire/fabric/fabric_library.c \
  runtime/wire/fabric/fabric_library.h runtime/wire/fabric/fabric_inside.h \
  runtime/wire/fabric/fabric_memory.c runtime/wire/fabric/channel.c
else
libwire_la_SOURCES += runtime/wire/fabric/fabric_none.c
endif

if HAVE_CHECK
WIRE_TESTS = tests/unit/wire_msg tests/unit/wire_lane tests/unit/wire_attach tests/unit/wire_out \
  tests/unit/wire_net tests/unit/wire_loop tests/unit/wire_conn tests/unit/wire_handshake \
  tests/unit/wire_wake tests/unit/wire_live tests/unit/wire_link tests/unit/wire_reads \
  tests/unit/wire_seal
check_PROGRAMS += $(WIRE_TESTS)
TESTS += $(WIRE_TESTS)
WIRE_TEST_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
WIRE_TEST_LIBS = libwire.la libbase.la $(CHECK_LIBS)
tests_unit_wire_msg_SOURCES = tests/unit/wire_msg.c tests/unit/wire_test.h
tests_unit_wire_msg_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_msg_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_lane_SOURCES = tests/unit/wire_lane.c tests/unit/wire_lanes.h tests/unit/wire_test.h
tests_unit_wire_lane_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_lane_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_attach_SOURCES = tests/unit/wire_attach.c tests/unit/wire_test.h
tests_unit_wire_attach_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_attach_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_net_SOURCES = tests/unit/wire_net.c tests/unit/wire_test.h tests/unit/net_alone.h
tests_unit_wire_net_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_net_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_out_SOURCES = tests/unit/wire_out.c tests/unit/wire_test.h
tests_unit_wire_out_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_out_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_loop_SOURCES = tests/unit/wire_loop.c tests/unit/wire_test.h
tests_unit_wire_loop_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_loop_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_live_SOURCES = tests/unit/wire_live.c tests/unit/wire_test.h tests/unit/net_alone.h
tests_unit_wire_live_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_live_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_conn_SOURCES = tests/unit/wire_conn.c tests/unit/wire_ends.h tests/unit/wire_test.h
tests_unit_wire_conn_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_conn_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_handshake_SOURCES = tests/unit/wire_handshake.c tests/unit/wire_ends.h \
  tests/unit/wire_test.h
tests_unit_wire_handshake_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_handshake_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_seal_SOURCES = tests/unit/wire_seal.c tests/unit/wire_ends.h tests/unit/wire_test.h
tests_unit_wire_seal_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_seal_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_link_SOURCES = tests/unit/wire_link.c tests/unit/link_ends.h \
  tests/unit/wire_ends.h tests/unit/wire_test.h
tests_unit_wire_link_CPPFLAGS = $(WIRE_TEST_CPPFLAGS) $(OFI_CPPFLAGS)
tests_unit_wire_link_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_reads_SOURCES = tests/unit/wire_reads.c tests/unit/link_ends.h \
  tests/unit/wire_ends.h tests/unit/wire_test.h
tests_unit_wire_reads_CPPFLAGS = $(WIRE_TEST_CPPFLAGS) $(OFI_CPPFLAGS)
tests_unit_wire_reads_LDADD = $(WIRE_TEST_LIBS)
tests_unit_wire_wake_SOURCES = tests/unit/wire_wake.c tests/unit/wire_lanes.h tests/unit/wire_test.h
tests_unit_wire_wake_CPPFLAGS = $(WIRE_TEST_CPPFLAGS)
tests_unit_wire_wake_LDADD = $(WIRE_TEST_LIBS)
endif

# Built by `make tests/bench/wire_bench`.
EXTRA_PROGRAMS = tests/bench/wire_bench
tests_bench_wire_bench_SOURCES = tests/bench/wire_bench.c
tests_bench_wire_bench_LDADD = libwire.la libbase.la
