# SPDX-License-Identifier: Apache-2.0
if HAVE_CHECK
# --- runtime/base and runtime/store ---
base_store_units = tests/unit/base_error tests/unit/base_clock tests/unit/base_size tests/unit/base_log tests/unit/base_stats
check_PROGRAMS += $(base_store_units)
TESTS += $(base_store_units)
UNIT_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit $(CHECK_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
UNIT_LIBS = libstore.la $(CHECK_LIBS) $(JANSSON_LIBS)
tests_unit_base_error_SOURCES = tests/unit/base_error.c tests/unit/unit.h
tests_unit_base_error_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_base_error_LDADD = $(UNIT_LIBS)
tests_unit_base_clock_SOURCES = tests/unit/base_clock.c
tests_unit_base_clock_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_base_clock_LDADD = $(UNIT_LIBS)
tests_unit_base_size_SOURCES = tests/unit/base_size.c
tests_unit_base_size_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_base_size_LDADD = $(UNIT_LIBS)
tests_unit_base_log_SOURCES = tests/unit/base_log.c
tests_unit_base_log_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_base_log_LDADD = $(UNIT_LIBS)
tests_unit_base_stats_SOURCES = tests/unit/base_stats.c
tests_unit_base_stats_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_base_stats_LDADD = $(UNIT_LIBS)
endif
