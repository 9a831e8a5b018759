# SPDX-License-Identifier: Apache-2.0
# ddictd: the supervisor of a node and, forked from it, the node's managers.
bin_PROGRAMS += ddictd
ddictd_SOURCES = runtime/supervisor/main.c
noinst_LIBRARIES += libsupervisor.a
libsupervisor_a_SOURCES = runtime/supervisor/attach_counts.c \
  runtime/supervisor/attach_counts.h runtime/supervisor/backtrace.c \
  runtime/supervisor/backtrace.h runtime/supervisor/client_attach.c \
  runtime/supervisor/clients.c runtime/supervisor/clients.h runtime/supervisor/clients_inside.h \
  runtime/supervisor/control.c runtime/supervisor/control.h \
  runtime/supervisor/control_inside.h runtime/supervisor/control_links.c \
  runtime/supervisor/control_messages.c runtime/supervisor/control_messages.h \
  runtime/supervisor/coordinator.c runtime/supervisor/coordinator.h \
  runtime/supervisor/decider.c runtime/supervisor/decider.h \
  runtime/supervisor/election.c runtime/supervisor/election.h runtime/supervisor/held_map.c \
  runtime/supervisor/held_map.h runtime/supervisor/grants.c \
  runtime/supervisor/grants.h runtime/supervisor/refill.c runtime/supervisor/refill.h \
  runtime/supervisor/refill_child.c runtime/supervisor/refill_child.h runtime/supervisor/owner_map.c \
  runtime/supervisor/owner_map.h runtime/supervisor/owner_steps.c runtime/supervisor/owner_steps.h \
  runtime/supervisor/elect.c runtime/supervisor/elect.h runtime/supervisor/figures.c \
  runtime/supervisor/figures.h runtime/supervisor/fork_leases.c runtime/supervisor/fork_leases.h \
  runtime/supervisor/freeze.c runtime/supervisor/freeze.h runtime/supervisor/gather.c \
  runtime/supervisor/gather.h runtime/supervisor/give_up.c runtime/supervisor/give_up.h runtime/supervisor/life_events.c \
  runtime/supervisor/life_events.h runtime/supervisor/lifecycle.c \
  runtime/supervisor/lifecycle.h runtime/supervisor/lives.c runtime/supervisor/lives.h \
  runtime/supervisor/manager_events.c \
  runtime/supervisor/manager_events.h runtime/supervisor/managers.c \
  runtime/supervisor/managers.h runtime/supervisor/new_backup.c runtime/supervisor/new_backup.h \
  runtime/supervisor/new_primary.c runtime/supervisor/new_primary.h \
  runtime/supervisor/node_info.c runtime/supervisor/node_info.h \
  runtime/supervisor/options.c runtime/supervisor/options.h runtime/supervisor/places.c \
  runtime/supervisor/places.h runtime/supervisor/record.c runtime/supervisor/record.h \
  runtime/supervisor/record_writer.c runtime/supervisor/record_writer.h \
  runtime/supervisor/rendezvous.c runtime/supervisor/rendezvous.h runtime/supervisor/report.c \
  runtime/supervisor/report.h runtime/supervisor/results.c runtime/supervisor/results.h \
  runtime/supervisor/save_child.c runtime/supervisor/save_passes.c \
  runtime/supervisor/save_passes.h runtime/supervisor/shadow_tries.c \
  runtime/supervisor/shadow_tries.h runtime/supervisor/shadows.c runtime/supervisor/shadows.h \
  runtime/supervisor/signals.c runtime/supervisor/signals.h \
  runtime/supervisor/socket_files.c runtime/supervisor/socket_files.h \
  runtime/supervisor/startup_output.c runtime/supervisor/startup_output.h \
  runtime/supervisor/status_page.c runtime/supervisor/status_page.h \
  runtime/supervisor/supervisor.h runtime/supervisor/takeover.c runtime/supervisor/takeover.h \
  runtime/supervisor/tasks.c runtime/supervisor/tasks.h \
  runtime/supervisor/transport.c runtime/supervisor/transport.h runtime/supervisor/watch.c \
  runtime/supervisor/watch.h runtime/supervisor/wireup.c runtime/supervisor/wireup.h
ddictd_CPPFLAGS = $(AM_CPPFLAGS) $(SODIUM_CFLAGS) $(XXHASH_CFLAGS) $(JANSSON_CFLAGS)
libsupervisor_a_CPPFLAGS = $(ddictd_CPPFLAGS)
ddictd_LDADD = libsupervisor.a libmanager.a liblaunch.la libstore.la libwire.la libplace.la libtopology.la libgpu.la libbase.la \
  $(SODIUM_LIBS) $(JANSSON_LIBS)
if HAVE_CHECK
MANAGER_TESTS = tests/unit/base_timers tests/unit/manager_supmsg tests/unit/manager_backlog \
  tests/unit/manager_forwards tests/unit/manager_ledger tests/unit/manager_results \
  tests/unit/manager_alive tests/unit/manager_backup tests/unit/manager_copy \
  tests/unit/manager_cut tests/unit/manager_moved tests/unit/manager_replicas tests/unit/manager_rules \
  tests/unit/supervisor_node_info tests/unit/supervisor_attach_counts \
  tests/unit/supervisor_counts tests/unit/supervisor_backtrace tests/unit/supervisor_replicas \
  tests/unit/supervisor_election \
  tests/unit/supervisor_new_backup tests/unit/supervisor_refill tests/unit/supervisor_refill_child \
  tests/unit/supervisor_shadows tests/unit/supervisor_watch tests/unit/supervisor_freeze \
  tests/unit/supervisor_ready tests/unit/manager_prefetch tests/local/control_messages
check_PROGRAMS += $(MANAGER_TESTS)
TESTS += $(MANAGER_TESTS)
MANAGER_TEST_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit $(XXHASH_CFLAGS)
tests_unit_base_timers_SOURCES = tests/unit/base_timers.c tests/unit/unit.h
tests_unit_base_timers_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_base_timers_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_manager_supmsg_SOURCES = tests/unit/manager_supmsg.c tests/unit/unit.h \
  runtime/manager/supmsg.c
tests_unit_manager_supmsg_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_supmsg_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_supervisor_backtrace_SOURCES = tests/unit/supervisor_backtrace.c tests/unit/unit.h \
  runtime/supervisor/backtrace.c runtime/supervisor/backtrace.h
tests_unit_supervisor_backtrace_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_backtrace_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_manager_backlog_SOURCES = tests/unit/manager_backlog.c tests/unit/unit.h \
  runtime/manager/backlog.c runtime/manager/backlog.h
tests_unit_manager_backlog_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_backlog_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_manager_forwards_SOURCES = tests/unit/manager_forwards.c tests/unit/unit.h \
  runtime/manager/forward_table.c runtime/manager/forward_table.h runtime/manager/ledger.c \
  runtime/manager/ledger.h
tests_unit_manager_forwards_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_forwards_LDADD = libwire.la libbase.la $(CHECK_LIBS)
tests_unit_manager_ledger_SOURCES = tests/unit/manager_ledger.c tests/unit/unit.h \
  runtime/manager/ledger.c runtime/manager/ledger.h
tests_unit_manager_ledger_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_ledger_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_manager_alive_SOURCES = tests/unit/manager_alive.c tests/unit/sides.h tests/unit/unit.h
tests_unit_manager_alive_CPPFLAGS = $(tests_unit_manager_backup_CPPFLAGS)
tests_unit_manager_alive_LDADD = $(tests_unit_manager_backup_LDADD)
tests_unit_manager_backup_SOURCES = tests/unit/manager_backup.c tests/unit/unit.h
tests_unit_manager_backup_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=store_clear
tests_unit_manager_backup_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS) $(SODIUM_CFLAGS) $(JANSSON_CFLAGS)
tests_unit_manager_backup_LDADD = libmanager.a libstore.la libwire.la libplace.la libtopology.la libgpu.la libbase.la \
  $(SODIUM_LIBS) $(JANSSON_LIBS) $(CHECK_LIBS)
tests_unit_manager_cut_SOURCES = tests/unit/manager_cut.c tests/unit/owners.h tests/unit/unit.h
tests_unit_manager_cut_CPPFLAGS = $(tests_unit_manager_backup_CPPFLAGS)
tests_unit_manager_cut_LDADD = $(tests_unit_manager_backup_LDADD)
tests_unit_manager_moved_SOURCES = tests/unit/manager_moved.c tests/unit/owners.h tests/unit/unit.h
tests_unit_manager_moved_CPPFLAGS = $(tests_unit_manager_backup_CPPFLAGS)
tests_unit_manager_moved_LDADD = $(tests_unit_manager_backup_LDADD)
tests_unit_manager_copy_SOURCES = tests/unit/manager_copy.c tests/unit/sides.h tests/unit/unit.h
tests_unit_manager_copy_CPPFLAGS = $(tests_unit_manager_backup_CPPFLAGS)
tests_unit_manager_copy_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
tests_unit_manager_copy_LDADD = $(tests_unit_manager_backup_LDADD)
tests_unit_manager_replicas_SOURCES = tests/unit/manager_replicas.c tests/unit/sides.h tests/unit/unit.h
tests_unit_manager_replicas_CPPFLAGS = $(tests_unit_manager_backup_CPPFLAGS)
tests_unit_manager_replicas_LDADD = $(tests_unit_manager_backup_LDADD)
tests_unit_manager_rules_SOURCES = tests/unit/manager_rules.c tests/unit/sides.h tests/unit/unit.h
tests_unit_manager_rules_CPPFLAGS = $(tests_unit_manager_backup_CPPFLAGS)
tests_unit_manager_rules_LDADD = $(tests_unit_manager_backup_LDADD)
tests_unit_manager_results_SOURCES = tests/unit/manager_results.c tests/unit/unit.h \
  runtime/manager/results.c runtime/manager/results.h
tests_unit_manager_results_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_results_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_supervisor_node_info_SOURCES = tests/unit/supervisor_node_info.c tests/unit/unit.h \
  runtime/supervisor/node_info.c runtime/supervisor/transport.c
tests_unit_supervisor_node_info_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_node_info_LDADD = libwire.la libbase.la $(CHECK_LIBS)
tests_unit_supervisor_attach_counts_SOURCES = tests/unit/supervisor_attach_counts.c \
  tests/unit/unit.h runtime/supervisor/attach_counts.c
tests_unit_supervisor_attach_counts_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS) $(XXHASH_CFLAGS)
tests_unit_supervisor_attach_counts_LDADD = libbase.la $(CHECK_LIBS)
tests_unit_supervisor_counts_SOURCES = tests/unit/supervisor_counts.c tests/unit/unit.h \
  runtime/supervisor/attach_counts.c runtime/supervisor/control.c runtime/supervisor/figures.c \
  runtime/supervisor/life_events.c runtime/supervisor/tasks.c
tests_unit_supervisor_counts_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS) $(XXHASH_CFLAGS)
tests_unit_supervisor_counts_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_replicas_SOURCES = tests/unit/supervisor_replicas.c tests/unit/unit.h \
  runtime/supervisor/coordinator.c runtime/supervisor/grants.c runtime/supervisor/held_map.c \
  runtime/supervisor/owner_map.c
tests_unit_supervisor_election_SOURCES = tests/unit/supervisor_election.c tests/unit/unit.h \
  runtime/supervisor/coordinator.c runtime/supervisor/election.c runtime/supervisor/held_map.c \
  runtime/supervisor/owner_map.c
tests_unit_supervisor_election_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_election_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc,--wrap=realloc
tests_unit_supervisor_election_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_replicas_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_replicas_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_new_backup_SOURCES = tests/unit/supervisor_new_backup.c tests/unit/unit.h \
  runtime/supervisor/decider.c runtime/supervisor/give_up.c runtime/supervisor/new_backup.c \
  runtime/supervisor/new_primary.c runtime/supervisor/owner_steps.c \
  runtime/supervisor/shadow_tries.c
tests_unit_supervisor_new_backup_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_new_backup_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_refill_SOURCES = tests/unit/supervisor_refill.c tests/unit/unit.h \
  runtime/supervisor/decider.c runtime/supervisor/refill.c
tests_unit_supervisor_refill_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_refill_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_shadows_SOURCES = tests/unit/supervisor_shadows.c tests/unit/unit.h \
  runtime/supervisor/shadows.c
tests_unit_supervisor_shadows_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_shadows_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_freeze_SOURCES = tests/unit/supervisor_freeze.c tests/unit/unit.h \
  runtime/supervisor/freeze.c
tests_unit_supervisor_freeze_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_freeze_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_ready_SOURCES = tests/unit/supervisor_ready.c tests/unit/unit.h \
  runtime/supervisor/manager_events.c
tests_unit_supervisor_ready_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_ready_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_manager_prefetch_SOURCES = tests/unit/manager_prefetch.c tests/unit/unit.h \
  runtime/manager/prefetch.c runtime/manager/prefetch.h
tests_unit_manager_prefetch_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_manager_prefetch_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_watch_SOURCES = tests/unit/supervisor_watch.c tests/unit/unit.h \
  runtime/supervisor/watch.c runtime/supervisor/watch.h
tests_unit_supervisor_watch_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS)
tests_unit_supervisor_watch_LDADD = libwire.la libbase.la $(CHECK_LIBS) $(SODIUM_LIBS)
tests_unit_supervisor_refill_child_SOURCES = tests/unit/supervisor_refill_child.c tests/unit/unit.h \
  runtime/supervisor/refill_child.c runtime/supervisor/refill_child.h
tests_unit_supervisor_refill_child_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS) $(JANSSON_CFLAGS)
tests_unit_supervisor_refill_child_LDADD = libwire.la libbase.la $(JANSSON_LIBS) $(CHECK_LIBS) $(SODIUM_LIBS)
tests_local_control_messages_SOURCES = tests/local/control_messages.c tests/local/gather_line.h \
  tests/unit/unit.h \
  runtime/supervisor/node_info.c runtime/supervisor/transport.c
tests_local_control_messages_CPPFLAGS = $(MANAGER_TEST_CPPFLAGS) $(SODIUM_CFLAGS)
tests_local_control_messages_LDADD = libwire.la libbase.la $(SODIUM_LIBS) $(CHECK_LIBS)
endif
