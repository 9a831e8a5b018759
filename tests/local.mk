# SPDX-License-Identifier: Apache-2.0
# Unit tests: one program a source file, in tests/unit. Stress tests: several processes, in tests/stress. Models of the shared memory: tests/litmus. Long use: tests/soak. Inputs of strangers: tests/fuzz. The binding: tests/python.
include tests/unit/local.mk
include tests/unit/client.mk
include tests/stress/local.mk
include tests/history/local.mk
include tests/soak/local.mk
include tests/litmus/local.mk
include tests/slurm/local.mk
include tests/python/local.mk
include tests/local/local.mk
include tests/local/client.mk
include tests/scale/local.mk
include tests/fuzz/local.mk

include tests/bench/peers/local.mk

check_PROGRAMS += tests/bench/store_bench tests/bench/reopen_bench tests/bench/follow_bench
tests_bench_follow_bench_SOURCES = tests/bench/follow_bench.c
tests_bench_follow_bench_LDADD = libddict.la
tests_bench_store_bench_SOURCES = tests/bench/store_bench.c
tests_bench_store_bench_LDADD = libstore.la
tests_bench_reopen_bench_SOURCES = tests/bench/reopen_bench.c
tests_bench_reopen_bench_LDADD = libstore.la
# On a cluster of contrib/devcluster; tests/slurm runs a short form of jobs.
EXTRA_DIST += tests/bench/follow.py tests/bench/jobs.py tests/bench/nodes.py
# By hand, within ddict run.
EXTRA_DIST += tests/bench/load_rate.py tests/bench/replicas.py
