# SPDX-License-Identifier: Apache-2.0
# Several ddictds on one host, without Slurm. probe is a client that speaks the protocol by hand.
check_PROGRAMS += tests/local/probe
tests_local_probe_SOURCES = tests/local/probe.c tests/local/probe.h \
  tests/local/probe_hostile.c tests/local/probe_woken.c tests/local/raw.c tests/local/raw.h \
  runtime/place/meet_ask.c
tests_local_probe_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_local_probe_LDADD = libstore.la libwireclient.la libbase.la
check_PROGRAMS += tests/local/replicas_client
tests_local_replicas_client_SOURCES = tests/local/replicas_client.c
tests_local_replicas_client_LDADD = libddict.la
LOCAL_TESTS = tests/local/basics.py tests/local/lifecycle.py tests/local/failures.py \
  tests/local/hung.py tests/local/wireup.py tests/local/outage.py tests/local/election.py tests/local/script.py \
  tests/local/record.py tests/local/report.py tests/local/meet.py tests/local/socket.sh \
  tests/local/bench.py tests/local/peers.py tests/local/load.py tests/local/load_ends.py tests/local/load_refill.py \
  tests/local/s3.py tests/local/save.py tests/local/strangers.py tests/local/between.py \
  tests/local/spill.py tests/local/spill_disk.py tests/local/turns.py tests/local/connections.py \
  tests/local/hugepages.py tests/local/keyed.py tests/local/transport.py tests/local/shadows.py
dist_check_SCRIPTS += $(LOCAL_TESTS)
TESTS += $(LOCAL_TESTS)
EXTRA_DIST += tests/local/cluster.py tests/local/losses.py tests/local/switch.py tests/local/load_folder.py tests/local/s3_server.py \
  tests/local/s3_moto.py
# Nodes of a dictionary with two copies, or with --refill, are lost.
dist_check_SCRIPTS += tests/local/follow.py tests/local/replicas.py tests/local/leases.py tests/local/votes.py \
  tests/local/first_node.py tests/local/refill.py
TESTS += tests/local/follow.py tests/local/replicas.py tests/local/leases.py tests/local/votes.py \
  tests/local/first_node.py tests/local/refill.py
