# SPDX-License-Identifier: Apache-2.0
# Histories of calls: workers that note what they call and are told, nemeses, and a checker that finds answers without explanation.
check_PROGRAMS += tests/history/worker
tests_history_worker_SOURCES = tests/history/worker.c tests/history/record.h
tests_history_worker_LDADD = libddict.la
# ddictd with intended bugs between its managers and the store.
check_PROGRAMS += tests/history/ddictd_mutant
tests_history_ddictd_mutant_SOURCES = tests/history/mutants.c
tests_history_ddictd_mutant_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_history_ddictd_mutant_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=store_open,--wrap=store_commit \
  -Wl,--wrap=store_find,--wrap=store_remove,--wrap=store_pop,--wrap=store_work,--wrap=store_leases_add \
  -Wl,--wrap=store_queue_push,--wrap=freeze_init,--wrap=freeze_take,--wrap=flight_send \
  -Wl,--wrap=results_enter,--wrap=flights_commit
tests_history_ddictd_mutant_LDADD = $(ddictd_OBJECTS) $(ddictd_LDADD)
HISTORY_TESTS = tests/history/checker.py tests/history/history.py tests/history/mutants.py \
  tests/history/windows.py
dist_check_SCRIPTS += $(HISTORY_TESTS)
TESTS += $(HISTORY_TESTS)
EXTRA_DIST += tests/history/linear.py tests/history/badlink.py tests/history/window_model.py \
  tests/history/window_worker.py

# A long one, with all nemeses; HISTORY_KILLS: so many kills of managers and clients instead; HISTORY_LOSSES: so many losses of nodes.
HISTORY_SECONDS = 600
HISTORY_KILLS = 0
HISTORY_REPLICAS = 1
HISTORY_LOSSES = 0
HISTORY_NEAR = 0
history: ddictd tests/local/probe tests/history/worker
	HISTORY_SECONDS=$(HISTORY_SECONDS) HISTORY_KILLS=$(HISTORY_KILLS) HISTORY_REPLICAS=$(HISTORY_REPLICAS) HISTORY_LOSSES=$(HISTORY_LOSSES) HISTORY_NEAR=$(HISTORY_NEAR) \
	  $(srcdir)/tests/history/history.py
# So many runs of 72 calls on working sets.
WINDOW_RUNS = 10000
windows: ddictd tests/local/probe
	WINDOW_RUNS=$(WINDOW_RUNS) $(srcdir)/tests/history/windows.py
.PHONY: history windows
