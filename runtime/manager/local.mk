# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += ddictd
ddictd_SOURCES = runtime/manager/main.c runtime/manager/supervisor.h runtime/manager/options.c runtime/manager/options.h \
  runtime/manager/wireup.c runtime/manager/card.c runtime/manager/elect.c runtime/manager/shards.c runtime/manager/watch.c runtime/manager/supmsg.c runtime/manager/supmsg.h \
  runtime/manager/clients.c runtime/manager/doors.c runtime/manager/meet.c runtime/manager/holds.c runtime/manager/board.c runtime/manager/control.c runtime/manager/ending.c \
  runtime/manager/report.c runtime/manager/record.c runtime/manager/scribe.c runtime/manager/steps.c runtime/manager/inputs.c runtime/manager/say.c \
  runtime/manager/manager.c runtime/manager/manager.h runtime/manager/asker.c runtime/manager/requests.c runtime/manager/puts.c runtime/manager/rooms.c runtime/manager/probe.c \
  runtime/manager/gives.c runtime/manager/lends.c runtime/manager/pulls.c runtime/manager/waiters.c runtime/manager/queues.c runtime/manager/feeds.c runtime/manager/lanes.c runtime/manager/inbound.c runtime/manager/peers.c \
  runtime/manager/forward.c runtime/manager/parked.c runtime/manager/transit.c runtime/manager/figures.c runtime/manager/notes.c runtime/manager/timers.c runtime/manager/timers.h \
  runtime/manager/results.c runtime/manager/saver.c runtime/manager/saving.c runtime/manager/saving.h runtime/manager/faults.c runtime/manager/faults.h runtime/manager/bind.c runtime/manager/tasks.c runtime/manager/transport.c
ddictd_SOURCES += runtime/manager/freeze.c runtime/manager/cache.c runtime/manager/prefetch.c runtime/manager/freezing.c
ddictd_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS) $(XXHASH_CFLAGS) $(JANSSON_CFLAGS)
ddictd_LDADD = libstore.la libwire.la libplace.la libtopology.la libgpu.la libbase.la $(SODIUM_LIBS) $(JANSSON_LIBS)
if HAVE_CHECK
MANAGER_TESTS = tests/unit/manager_timers tests/unit/manager_supmsg tests/unit/manager_card tests/unit/manager_steps
check_PROGRAMS += $(MANAGER_TESTS)
TESTS += $(MANAGER_TESTS)
MANAGER_TEST_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
tests_unit_manager_timers_SOURCES = tests/unit/manager_timers.c tests/unit/unit.h runtime/manager/timers.c
tests_unit_manager_timers_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_timers_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_manager_supmsg_SOURCES = tests/unit/manager_supmsg.c tests/unit/unit.h runtime/manager/supmsg.c
tests_unit_manager_supmsg_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_supmsg_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_manager_card_SOURCES = tests/unit/manager_card.c tests/unit/unit.h runtime/manager/card.c runtime/manager/transport.c
tests_unit_manager_card_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_card_LDADD = libwire.la libbase.la $(CHECK_LIBS)
tests_unit_manager_steps_SOURCES = tests/unit/manager_steps.c tests/unit/unit.h runtime/manager/steps.c
tests_unit_manager_steps_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS) $(XXHASH_CFLAGS)
tests_unit_manager_steps_LDADD = libbase.la $(CHECK_LIBS)
endif
