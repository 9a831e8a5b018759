# SPDX-License-Identifier: Apache-2.0
# The dictionary beside its peers. Built with the tests, run by hand: make -C tests/bench peers.
if HAVE_LMDB
check_PROGRAMS += tests/bench/peers/measure
tests_bench_peers_measure_SOURCES = tests/bench/peers/main.c tests/bench/peers/peers.h \
  tests/bench/peers/turns.c tests/bench/peers/sides.c tests/bench/peers/pairs.c \
  tests/bench/peers/store_ddict.c tests/bench/peers/store_table.c tests/bench/peers/store_lmdb.c \
  tests/bench/peers/store_redis.c tests/bench/peers/store_memcached.c \
  tests/bench/peers/store_tcp.c tests/bench/peers/stream.c tests/bench/peers/stream.h \
  tests/bench/peers/workers.c tests/bench/peers/rows_local.c tests/bench/peers/rows_many.c \
  tests/bench/peers/rows_wait.c tests/bench/peers/rows_large.c tests/bench/peers/rows_remote.c \
  tests/bench/peers/rows_count.c
tests_bench_peers_measure_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(LMDB_CFLAGS)
tests_bench_peers_measure_LDADD = libddict.la libbase.la $(LMDB_LIBS)
endif
EXTRA_DIST += tests/bench/peers/peers.py tests/bench/peers/servers.py tests/bench/peers/goals.py \
  tests/bench/peers/table.py tests/bench/peers/nets.py tests/bench/peers/python_rows.py \
  tests/bench/peers/py_side.py tests/bench/peers/start_rows.py tests/bench/peers/page.py
