# SPDX-License-Identifier: Apache-2.0
# libreader: the read side, for clients. libstore: the whole, for managers.
libreader_sources = runtime/store/reader.c runtime/store/reader_keys.c runtime/store/view.c \
  runtime/store/reader.h runtime/store/find.h runtime/store/layout.h runtime/store/stress.h
libstore_sources = $(libreader_sources) runtime/store/arena.c runtime/store/store.c \
  runtime/store/budget.c runtime/store/pages.c runtime/store/heap.c runtime/store/compact.c \
  runtime/store/segment.c runtime/store/index.c runtime/store/intent.c runtime/store/operation.c runtime/store/lease.c \
  runtime/store/lease_pages.c runtime/store/lease_pages.h runtime/store/scan.c runtime/store/scan.h \
  runtime/store/rebuild.c runtime/store/queue.c runtime/store/cache.c \
  runtime/store/spill.c runtime/store/spill_away.c runtime/store/spill_batch.c \
  runtime/store/spill_error.c runtime/store/spill_file.c runtime/store/spill_fill.c \
  runtime/store/spill_read.c runtime/store/spill_worker.c \
  runtime/store/populate.c runtime/store/memlimit.c runtime/store/table.c runtime/store/table.h \
  runtime/store/pool.c runtime/store/hugepool.c runtime/store/hugepool.h runtime/store/state.h \
  runtime/store/store.h runtime/store/budget.h runtime/store/cache.h runtime/store/compact.h \
  runtime/store/heap.h runtime/store/index.h runtime/store/intent.h runtime/store/operation.h runtime/store/lease.h \
  runtime/store/pages.h runtime/store/pool.h runtime/store/queue.h runtime/store/rebuild.h \
  runtime/store/segment.h runtime/store/spill.h runtime/store/spill_away.h \
  runtime/store/spill_batch.h runtime/store/spill_error.h runtime/store/spill_file.h \
  runtime/store/spill_fill.h runtime/store/spill_read.h runtime/store/spill_worker.h
noinst_LTLIBRARIES += libreader.la libstore.la
libreader_la_SOURCES = $(libreader_sources)
libreader_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
libreader_la_LIBADD = libbase.la
libstore_la_SOURCES = $(libstore_sources)
libstore_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
libstore_la_LIBADD = libbase.la
