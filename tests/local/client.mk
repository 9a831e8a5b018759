# SPDX-License-Identifier: Apache-2.0
# libddict against running ddictds on this host, one or several nodes. Each program starts and ends its own.
if HAVE_CHECK
# One program for one source file, each with the same helpers.
CLIENT_TESTS = tests/local/client_alive tests/local/client_api tests/local/client_near \
  tests/local/client_async tests/local/client_async_end tests/local/client_async_order tests/local/client_atomic \
  tests/local/client_bytes tests/local/client_crowd tests/local/client_death \
  tests/local/client_dropped tests/local/client_events tests/local/client_fork \
  tests/local/client_fork_hung tests/local/client_freeze tests/local/client_hung tests/local/client_keyed \
  tests/local/client_late tests/local/client_lives tests/local/client_lives_far \
  tests/local/client_lives_forgot tests/local/client_lives_freeze tests/local/client_lives_proxy tests/local/client_lives_push \
  tests/local/client_lives_rewind tests/local/client_lives_stream tests/local/client_lives_wait \
  tests/local/client_many tests/local/client_place tests/local/client_pop tests/local/client_publish tests/local/client_room \
  tests/local/client_same tests/local/client_spin tests/local/client_threads \
  tests/local/client_up tests/local/client_values tests/local/client_views tests/local/client_window \
  tests/local/client_window_races tests/local/client_window_waits \
  tests/local/client_window_steps \
  tests/local/break_streams tests/local/break_times tests/local/client_linked
CLIENT_TESTS += tests/local/client_unpublish
CLIENT_TESTS += tests/local/client_linked_odd
check_PROGRAMS += $(CLIENT_TESTS)
TESTS += $(CLIENT_TESTS)
check_LTLIBRARIES += tests/local/libclient_dict.la
tests_local_libclient_dict_la_SOURCES = tests/local/client_dict.c tests/local/client_dict.h \
  tests/local/client_async.h tests/local/gather_line.h
tests_local_libclient_dict_la_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS)
tests_local_libclient_dict_la_LIBADD = $(SODIUM_LIBS)
client_test_libs = tests/local/libclient_dict.la libddict.la $(CHECK_LIBS)
tests_local_client_near_SOURCES = tests/local/client_near.c
tests_local_client_near_LDADD = $(client_test_libs)
tests_local_client_linked_LDADD = $(client_test_libs)
tests_local_client_linked_odd_SOURCES = tests/local/client_linked_odd.c tests/local/raw.c tests/local/raw.h
tests_local_client_linked_odd_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_local_client_linked_odd_LDADD = tests/local/libclient_dict.la libclient.la $(CHECK_LIBS)
tests_local_client_api_SOURCES = tests/local/client_api.c tests/local/old_program.c
tests_local_client_api_LDADD = $(client_test_libs)
tests_local_client_alive_LDADD = $(client_test_libs)
tests_local_client_async_LDADD = $(client_test_libs)
tests_local_client_async_end_LDADD = $(client_test_libs)
tests_local_client_async_order_LDADD = $(client_test_libs)
tests_local_client_atomic_LDADD = $(client_test_libs)
tests_local_client_bytes_LDADD = $(client_test_libs)
tests_local_client_crowd_LDADD = $(client_test_libs)
tests_local_client_death_LDADD = $(client_test_libs)
tests_local_client_dropped_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_local_client_dropped_LDADD = tests/local/libclient_dict.la libclient.la $(CHECK_LIBS)
tests_local_client_events_LDADD = $(client_test_libs)
tests_local_client_fork_LDADD = $(client_test_libs)
tests_local_client_fork_hung_LDADD = $(client_test_libs)
tests_local_client_freeze_LDADD = $(client_test_libs)
tests_local_client_hung_LDADD = $(client_test_libs)
tests_local_client_late_LDADD = $(client_test_libs)
tests_local_client_unpublish_LDADD = $(client_test_libs)
tests_local_client_up_LDADD = libddict.la $(CHECK_LIBS)
check_LTLIBRARIES += tests/local/libclient_strays.la
tests_local_libclient_strays_la_SOURCES = tests/local/client_strays.c tests/local/client_strays.h
tests_local_libclient_strays_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_local_libclient_strays_la_LIBADD = libclient.la
client_lives_libs = tests/local/libclient_dict.la tests/local/libclient_strays.la $(CHECK_LIBS)
client_lives_dict = tests/local/client_lives_dict.c tests/local/client_lives_dict.h
client_lives_once = tests/local/client_lives_once.c tests/local/client_lives_once.h
tests_local_client_lives_SOURCES = tests/local/client_lives.c $(client_lives_dict) \
  $(client_lives_once)
tests_local_client_lives_far_SOURCES = tests/local/client_lives_far.c $(client_lives_once)
tests_local_client_lives_forgot_SOURCES = tests/local/client_lives_forgot.c $(client_lives_dict)
tests_local_client_lives_proxy_SOURCES = tests/local/client_lives_proxy.c $(client_lives_dict) \
  $(client_lives_once)
tests_local_client_lives_push_SOURCES = tests/local/client_lives_push.c $(client_lives_dict) \
  tests/local/client_lives_hostile.c tests/local/client_lives_hostile.h
tests_local_client_lives_rewind_SOURCES = tests/local/client_lives_rewind.c $(client_lives_dict) \
  tests/local/client_lives_pieces.c tests/local/client_lives_pieces.h tests/local/raw.c \
  tests/local/raw.h
tests_local_client_lives_rewind_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_local_client_lives_stream_SOURCES = tests/local/client_lives_stream.c $(client_lives_dict)
tests_local_client_lives_wait_SOURCES = tests/local/client_lives_wait.c $(client_lives_dict)
tests_local_client_lives_LDADD = $(client_lives_libs)
tests_local_client_lives_far_LDADD = $(client_lives_libs)
tests_local_client_lives_forgot_LDADD = $(client_lives_libs)
tests_local_client_lives_freeze_LDADD = $(client_lives_libs)
tests_local_client_lives_proxy_LDADD = $(client_lives_libs)
tests_local_client_lives_push_LDADD = $(client_lives_libs)
tests_local_client_lives_rewind_LDADD = $(client_lives_libs)
tests_local_client_lives_stream_LDADD = $(client_lives_libs)
tests_local_client_lives_wait_LDADD = $(client_lives_libs)
tests_local_client_many_LDADD = $(client_test_libs)
tests_local_client_place_LDADD = $(client_test_libs)
tests_local_client_pop_LDADD = $(client_test_libs)
tests_local_client_publish_LDADD = $(client_test_libs)
tests_local_client_room_LDADD = $(client_test_libs)
tests_local_client_keyed_LDADD = $(client_test_libs)
tests_local_client_same_LDADD = $(client_test_libs)
tests_local_client_spin_LDADD = $(client_test_libs)
tests_local_client_threads_LDADD = $(client_test_libs)
tests_local_client_values_LDADD = $(client_test_libs)
tests_local_client_views_LDADD = $(client_test_libs)
tests_local_client_window_SOURCES = tests/local/client_window.c tests/local/client_window.h
tests_local_client_window_LDADD = $(client_test_libs)
tests_local_client_window_races_SOURCES = tests/local/client_window_races.c tests/local/client_window.h
tests_local_client_window_races_LDADD = $(client_test_libs)
tests_local_client_window_waits_SOURCES = tests/local/client_window_waits.c tests/local/client_window.h
tests_local_client_window_waits_LDADD = $(client_test_libs)
tests_local_client_window_steps_SOURCES = tests/local/client_window_steps.c tests/local/client_window.h
tests_local_client_window_steps_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ddict_put_if,--wrap=ddict_putv,--wrap=ddict_get_many,--wrap=window_ask_wait,--wrap=ddict_put_many
tests_local_client_window_steps_LDADD = tests/local/libclient_dict.la libclient.la $(CHECK_LIBS)
tests_local_break_streams_LDADD = $(client_test_libs)
tests_local_break_times_LDADD = $(client_test_libs)
check_PROGRAMS += tests/local/client_disk tests/local/client_turns
tests_local_client_disk_LDADD = libddict.la
tests_local_client_turns_LDADD = libddict.la
endif
dist_check_SCRIPTS += tests/local/client_command.sh
TESTS += tests/local/client_command.sh
# Programs with a libddict of another version: one file of it stands before the library's own.
VERSION_TESTS = tests/local/version_older tests/local/version_newer tests/local/version_layout
check_PROGRAMS += $(VERSION_TESTS)
version_flags = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) -I$(top_srcdir)/runtime
tests_local_version_older_SOURCES = tests/local/version.c
tests_local_version_older_CPPFLAGS = $(version_flags) -DTEST_VERSION='"0.0.1"' -DTEST_PROTOCOL=0 \
  -DTEST_LAYOUT=0
tests_local_version_older_LDADD = libclient.la
tests_local_version_newer_SOURCES = tests/local/version.c
tests_local_version_newer_CPPFLAGS = $(version_flags) -DTEST_VERSION='"9.9.9"' -DTEST_PROTOCOL=100 \
  -DTEST_LAYOUT=0
tests_local_version_newer_LDADD = libclient.la
tests_local_version_layout_SOURCES = tests/local/version.c
tests_local_version_layout_CPPFLAGS = $(version_flags) -DTEST_VERSION='"9.9.9"' -DTEST_PROTOCOL=0 \
  -DTEST_LAYOUT=100
tests_local_version_layout_LDADD = libclient.la
dist_check_SCRIPTS += tests/local/versions.sh
TESTS += tests/local/versions.sh

# The same programs where the kernel has no membarrier.
check_PROGRAMS += tests/local/without_barriers
tests_local_without_barriers_SOURCES = tests/local/without_barriers.c
dist_check_SCRIPTS += tests/local/without.sh
TESTS += tests/local/without.sh
