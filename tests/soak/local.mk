# SPDX-License-Identifier: Apache-2.0
# A dictionary that is used for long: nothing of it grows. soaker is a client that makes all calls.
check_PROGRAMS += tests/soak/soaker
tests_soak_soaker_SOURCES = tests/soak/soaker.c
tests_soak_soaker_LDADD = libddict.la
dist_check_SCRIPTS += tests/soak/soak.py
TESTS += tests/soak/soak.py

SOAK_SECONDS = 1800
soak: ddictd ddict ddict-load tests/local/probe tests/history/worker tests/soak/soaker
	SOAK_SECONDS=$(SOAK_SECONDS) $(srcdir)/tests/soak/soak.py
.PHONY: soak
