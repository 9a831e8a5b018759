# SPDX-License-Identifier: Apache-2.0
if HAVE_CHECK
# --- runtime/base and runtime/store: libstore.la has both ---
base_store_units = tests/unit/base_error tests/unit/base_clock tests/unit/base_spin \
  tests/unit/base_copy tests/unit/base_size tests/unit/base_hash tests/unit/base_user \
  tests/unit/base_io tests/unit/base_log tests/unit/base_stats tests/unit/base_text \
  tests/unit/base_vec tests/unit/base_hashset tests/unit/base_shadow tests/unit/store_table \
  tests/unit/store_arena tests/unit/store_heap tests/unit/store_store tests/unit/store_reader \
  tests/unit/store_lease tests/unit/store_memlimit tests/unit/store_populate tests/unit/store_pool \
  tests/unit/store_rebuild tests/unit/store_cache tests/unit/store_spill tests/unit/store_queue \
  tests/unit/store_compact
check_PROGRAMS += $(base_store_units)
TESTS += $(base_store_units)
EXTRA_DIST += tests/unit/unit.h tests/unit/store_test.h
BASE_STORE_LIBS = libstore.la $(CHECK_LIBS) $(JANSSON_LIBS)
tests_unit_base_error_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_clock_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_spin_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_copy_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_size_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_hash_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_hash_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_unit_base_user_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_shadow_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_shadow_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_unit_base_io_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_log_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_stats_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_text_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_vec_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=realloc
tests_unit_base_vec_LDADD = $(BASE_STORE_LIBS)
tests_unit_base_hashset_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
tests_unit_base_hashset_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_table_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_arena_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_heap_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_store_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_reader_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_lease_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_memlimit_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_populate_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_pool_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_rebuild_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_compact_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_cache_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_spill_LDADD = $(BASE_STORE_LIBS)
tests_unit_store_queue_LDADD = $(BASE_STORE_LIBS)

# --- the same with larger pages ---
check_LTLIBRARIES += tests/unit/libbig_pages.la
tests_unit_libbig_pages_la_SOURCES = tests/unit/big_pages.c
tests_unit_libbig_pages_la_CFLAGS = $(WARN_CFLAGS)
tests_unit_libbig_pages_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
dist_check_SCRIPTS += tests/unit/pages.t
TESTS += tests/unit/pages.t
endif
