# SPDX-License-Identifier: Apache-2.0
# Several ddictds on one host, without Slurm. probe is a client that speaks the protocol by hand.
check_PROGRAMS += tests/local/probe
tests_local_probe_SOURCES = tests/local/probe.c tests/local/raw.c tests/local/raw.h
tests_local_probe_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_local_probe_LDADD = libstore.la libwireclient.la libbase.la
dist_check_SCRIPTS += tests/local/basics.py
TESTS += tests/local/basics.py
EXTRA_DIST += tests/local/cluster.py
