# SPDX-License-Identifier: Apache-2.0
# libddict against running ddictds on this host, one or several nodes. Each program starts and ends its own.
if HAVE_CHECK
CLIENT_TESTS = tests/local/client_events tests/local/client_api tests/local/client_many tests/local/client_same tests/local/client_threads tests/local/client_fork tests/local/client_death \
	tests/local/client_bytes tests/local/client_jobs tests/local/client_jobs_end tests/local/client_place tests/local/client_crowd tests/local/client_spin tests/local/break_streams tests/local/break_times tests/local/client_hung
check_PROGRAMS += $(CLIENT_TESTS)
TESTS += $(CLIENT_TESTS)
client_test_sources = tests/local/client_dict.c tests/local/client_dict.h
client_test_flags = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
client_test_libs = libddict.la $(CHECK_LIBS)
check_PROGRAMS += tests/local/client_disk
tests_local_client_disk_SOURCES = tests/local/client_disk.c
tests_local_client_disk_CPPFLAGS = $(client_test_flags)
tests_local_client_disk_LDADD = libddict.la
tests_local_client_spin_SOURCES = tests/local/client_spin.c $(client_test_sources)
tests_local_client_spin_CPPFLAGS = $(client_test_flags)
tests_local_client_spin_LDADD = $(client_test_libs)
tests_local_client_hung_SOURCES = tests/local/client_hung.c $(client_test_sources)
tests_local_client_hung_CPPFLAGS = $(client_test_flags)
tests_local_client_hung_LDADD = $(client_test_libs)
tests_local_client_api_SOURCES = tests/local/client_api.c $(client_test_sources)
tests_local_client_api_CPPFLAGS = $(client_test_flags)
tests_local_client_api_LDADD = $(client_test_libs)
tests_local_client_events_SOURCES = tests/local/client_events.c $(client_test_sources)
tests_local_client_events_CPPFLAGS = $(client_test_flags)
tests_local_client_events_LDADD = $(client_test_libs)
tests_local_client_many_SOURCES = tests/local/client_many.c $(client_test_sources)
tests_local_client_many_CPPFLAGS = $(client_test_flags)
tests_local_client_many_LDADD = $(client_test_libs)
tests_local_client_same_SOURCES = tests/local/client_same.c $(client_test_sources)
tests_local_client_same_CPPFLAGS = $(client_test_flags)
tests_local_client_same_LDADD = $(client_test_libs)
tests_local_client_threads_SOURCES = tests/local/client_threads.c $(client_test_sources)
tests_local_client_threads_CPPFLAGS = $(client_test_flags)
tests_local_client_threads_LDADD = $(client_test_libs)
tests_local_client_fork_SOURCES = tests/local/client_fork.c $(client_test_sources)
tests_local_client_fork_CPPFLAGS = $(client_test_flags)
tests_local_client_fork_LDADD = $(client_test_libs)
tests_local_client_death_SOURCES = tests/local/client_death.c $(client_test_sources)
tests_local_client_death_CPPFLAGS = $(client_test_flags)
tests_local_client_death_LDADD = $(client_test_libs)
tests_local_client_bytes_SOURCES = tests/local/client_bytes.c $(client_test_sources)
tests_local_client_bytes_CPPFLAGS = $(client_test_flags)
tests_local_client_bytes_LDADD = $(client_test_libs)
tests_local_client_jobs_SOURCES = tests/local/client_jobs.c tests/local/client_jobs.h $(client_test_sources)
tests_local_client_jobs_CPPFLAGS = $(client_test_flags)
tests_local_client_jobs_LDADD = $(client_test_libs)
tests_local_client_jobs_end_SOURCES = tests/local/client_jobs_end.c tests/local/client_jobs.h $(client_test_sources)
tests_local_client_jobs_end_CPPFLAGS = $(client_test_flags)
tests_local_client_jobs_end_LDADD = $(client_test_libs)
tests_local_client_place_SOURCES = tests/local/client_place.c $(client_test_sources)
tests_local_client_place_CPPFLAGS = $(client_test_flags)
tests_local_client_place_LDADD = $(client_test_libs)
check_PROGRAMS += tests/local/client_views
TESTS += tests/local/client_views
tests_local_client_views_SOURCES = tests/local/client_views.c $(client_test_sources)
tests_local_client_views_CPPFLAGS = $(client_test_flags)
tests_local_client_views_LDADD = $(client_test_libs)
check_PROGRAMS += tests/local/client_fork_hung
TESTS += tests/local/client_fork_hung
tests_local_client_fork_hung_SOURCES = tests/local/client_fork_hung.c $(client_test_sources)
tests_local_client_fork_hung_CPPFLAGS = $(client_test_flags)
tests_local_client_fork_hung_LDADD = $(client_test_libs)
check_PROGRAMS += tests/local/client_dropped
TESTS += tests/local/client_dropped
tests_local_client_dropped_SOURCES = tests/local/client_dropped.c $(client_test_sources)
tests_local_client_dropped_CPPFLAGS = $(client_test_flags) $(XXHASH_CFLAGS) -I$(top_srcdir)/runtime
tests_local_client_dropped_LDADD = libclient.la $(CHECK_LIBS)
tests_local_client_crowd_SOURCES = tests/local/client_crowd.c $(client_test_sources)
tests_local_client_crowd_CPPFLAGS = $(client_test_flags)
tests_local_client_crowd_LDADD = $(client_test_libs)
tests_local_break_streams_SOURCES = tests/local/break_streams.c $(client_test_sources)
tests_local_break_streams_CPPFLAGS = $(client_test_flags)
tests_local_break_streams_LDADD = $(client_test_libs)
tests_local_break_times_SOURCES = tests/local/break_times.c $(client_test_sources)
tests_local_break_times_CPPFLAGS = $(client_test_flags)
tests_local_break_times_LDADD = $(client_test_libs)
check_PROGRAMS += tests/local/client_freeze
TESTS += tests/local/client_freeze
tests_local_client_freeze_SOURCES = tests/local/client_freeze.c $(client_test_sources)
tests_local_client_freeze_CPPFLAGS = $(client_test_flags)
tests_local_client_freeze_LDADD = $(client_test_libs)
endif
dist_check_SCRIPTS += tests/local/client_command.sh
TESTS += tests/local/client_command.sh
# Programs with a libddict of another version: one file of it stands before the library's own.
VERSION_TESTS = tests/local/version_older tests/local/version_newer tests/local/version_layout
check_PROGRAMS += $(VERSION_TESTS)
version_flags = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) -I$(top_srcdir)/runtime
tests_local_version_older_SOURCES = tests/local/version.c
tests_local_version_older_CPPFLAGS = $(version_flags) -DTEST_VERSION='"0.0.1"' -DTEST_PROTOCOL=0 -DTEST_LAYOUT=0
tests_local_version_older_LDADD = libclient.la
tests_local_version_newer_SOURCES = tests/local/version.c
tests_local_version_newer_CPPFLAGS = $(version_flags) -DTEST_VERSION='"9.9.9"' -DTEST_PROTOCOL=100 -DTEST_LAYOUT=0
tests_local_version_newer_LDADD = libclient.la
tests_local_version_layout_SOURCES = tests/local/version.c
tests_local_version_layout_CPPFLAGS = $(version_flags) -DTEST_VERSION='"9.9.9"' -DTEST_PROTOCOL=0 -DTEST_LAYOUT=100
tests_local_version_layout_LDADD = libclient.la
dist_check_SCRIPTS += tests/local/versions.sh
TESTS += tests/local/versions.sh

# The same programs where the kernel has no membarrier.
check_PROGRAMS += tests/local/without_barriers
tests_local_without_barriers_SOURCES = tests/local/without_barriers.c
dist_check_SCRIPTS += tests/local/without.sh
TESTS += tests/local/without.sh
