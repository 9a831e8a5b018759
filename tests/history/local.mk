# SPDX-License-Identifier: Apache-2.0
# Histories of calls: workers that note what they call and are told, nemeses, and a checker that finds answers without explanation.
check_PROGRAMS += tests/history/worker
tests_history_worker_SOURCES = tests/history/worker.c tests/history/record.h
tests_history_worker_LDADD = libddict.la
HISTORY_TESTS = tests/history/checker.py tests/history/history.py
dist_check_SCRIPTS += $(HISTORY_TESTS)
TESTS += $(HISTORY_TESTS)
EXTRA_DIST += tests/history/linear.py

# A long one, with all nemeses.
HISTORY_SECONDS = 600
history: ddictd tests/local/probe tests/history/worker
	HISTORY_SECONDS=$(HISTORY_SECONDS) $(srcdir)/tests/history/history.py
.PHONY: history
