# SPDX-License-Identifier: Apache-2.0
# --- runtime/store, built with delays and mutants ---
check_LTLIBRARIES += libstore_stress.la
libstore_stress_la_SOURCES = $(libstore_sources)
libstore_stress_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) -DDDICT_STRESS
libstore_stress_la_LIBADD = libbase.la

store_stress_programs = tests/stress/store_stress tests/stress/store_crash
if HAVE_CHECK
store_stress_programs += tests/stress/store_steps tests/stress/store_frozen tests/stress/store_litmus
endif
check_PROGRAMS += $(store_stress_programs)
TESTS += $(store_stress_programs)
STRESS_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) -DDDICT_STRESS -I$(top_srcdir)/tests/unit
tests_stress_store_stress_CPPFLAGS = $(STRESS_CPPFLAGS)
tests_stress_store_stress_LDADD = libstore_stress.la $(JANSSON_LIBS)
tests_stress_store_crash_CPPFLAGS = $(STRESS_CPPFLAGS)
tests_stress_store_crash_LDADD = libstore_stress.la $(JANSSON_LIBS)
tests_stress_store_steps_CPPFLAGS = $(STRESS_CPPFLAGS) $(CHECK_CFLAGS)
tests_stress_store_steps_LDADD = libstore_stress.la $(CHECK_LIBS) $(JANSSON_LIBS)
tests_stress_store_frozen_CPPFLAGS = $(STRESS_CPPFLAGS) $(CHECK_CFLAGS)
tests_stress_store_frozen_LDADD = libstore_stress.la $(CHECK_LIBS) $(JANSSON_LIBS)
tests_stress_store_litmus_CPPFLAGS = $(STRESS_CPPFLAGS) $(CHECK_CFLAGS)
tests_stress_store_litmus_LDADD = $(CHECK_LIBS)
