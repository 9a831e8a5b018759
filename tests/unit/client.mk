# SPDX-License-Identifier: Apache-2.0
# The insides of libddict, against a manager that the test plays itself.
if HAVE_CHECK
client_units = tests/unit/cmd_bench tests/unit/common_key_text tests/unit/lib_lease \
  tests/unit/lib_lane tests/unit/lib_life tests/unit/lib_stats tests/unit/load_progress tests/unit/save_dump \
  tests/unit/save_seen
if BUILD_LOAD
client_units += tests/unit/load_array tests/unit/load_sign
endif
check_PROGRAMS += $(client_units)
TESTS += $(client_units)
tests_unit_cmd_bench_SOURCES = tests/unit/cmd_bench.c client/cmd/bench/bench_keys.c \
  client/cmd/bench/bench.h
tests_unit_cmd_bench_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_cmd_bench_LDADD = $(CHECK_LIBS)
tests_unit_common_key_text_SOURCES = tests/unit/common_key_text.c client/common/key_text.c \
  client/common/key_text.h
tests_unit_common_key_text_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_common_key_text_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_lib_lease_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(CHECK_CFLAGS)
tests_unit_lib_lease_LDADD = libclient.la $(CHECK_LIBS)
tests_unit_lib_lane_SOURCES = tests/unit/lib_lane.c tests/unit/lane_ends.h
tests_unit_lib_life_SOURCES = tests/unit/lib_life.c tests/unit/lane_ends.h
tests_unit_lib_life_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(CHECK_CFLAGS)
tests_unit_lib_life_LDADD = libclient.la $(CHECK_LIBS)
tests_unit_lib_lane_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(CHECK_CFLAGS)
tests_unit_lib_lane_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
tests_unit_lib_lane_LDADD = libclient.la $(CHECK_LIBS)
tests_unit_lib_stats_SOURCES = tests/unit/lib_stats.c client/lib/stats_public.c \
  client/lib/stats_public.h
tests_unit_lib_stats_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_lib_stats_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_load_array_SOURCES = tests/unit/load_array.c client/load/format/array.c \
  client/load/format/array.h
tests_unit_load_array_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_load_array_LDADD = $(CHECK_LIBS) -lm
tests_unit_load_progress_SOURCES = tests/unit/load_progress.c client/load/progress.c \
  runtime/base/size.c
tests_unit_load_progress_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_load_progress_LDADD = $(CHECK_LIBS) -lutil
tests_unit_load_sign_SOURCES = tests/unit/load_sign.c client/load/s3/s3_sign.c \
  client/load/s3/s3_sign.h client/load/s3/s3_config.h
tests_unit_load_sign_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_load_sign_LDADD = libbase.la $(SODIUM_LIBS) $(CHECK_LIBS)
tests_unit_save_seen_SOURCES = tests/unit/save_seen.c client/save/seen.h client/save/seen.c
tests_unit_save_seen_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(CHECK_CFLAGS)
tests_unit_save_seen_LDADD = libbase.la $(XXHASH_LIBS) $(CHECK_LIBS)
tests_unit_save_dump_SOURCES = tests/unit/save_dump.c client/save/dump.h client/save/dump_format.h \
  client/save/dump_in.c client/save/dump_in.h client/save/dump_out.c client/save/dump_out.h
tests_unit_save_dump_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(CHECK_CFLAGS)
tests_unit_save_dump_LDADD = libbase.la $(XXHASH_LIBS) $(CHECK_LIBS)
endif
