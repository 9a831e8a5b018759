# SPDX-License-Identifier: Apache-2.0
# --- runtime/store, built with delays and mutants ---
check_LTLIBRARIES += libstore_stress.la
libstore_stress_la_SOURCES = $(libstore_sources)
libstore_stress_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) -DDDICT_STRESS
libstore_stress_la_LIBADD = libbase.la

store_stress_programs = tests/stress/store_stress tests/stress/store_crash
if HAVE_CHECK
store_stress_programs += tests/stress/store_steps tests/stress/store_frozen \
  tests/stress/store_litmus
endif
check_PROGRAMS += $(store_stress_programs)
TESTS += $(store_stress_programs)
STRESS_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) -DDDICT_STRESS -I$(top_srcdir)/tests/unit
tests_stress_store_stress_SOURCES = tests/stress/store_stress.c tests/stress/store_stress.h \
  tests/stress/store_stress_reader.c
tests_stress_store_stress_CPPFLAGS = $(STRESS_CPPFLAGS)
tests_stress_store_stress_LDADD = libstore_stress.la $(JANSSON_LIBS)
tests_stress_store_crash_SOURCES = tests/stress/store_crash.c tests/stress/store_crash.h \
  tests/stress/store_crash_steps.c
tests_stress_store_crash_CPPFLAGS = $(STRESS_CPPFLAGS)
tests_stress_store_crash_LDADD = libstore_stress.la $(JANSSON_LIBS)
tests_stress_store_steps_CPPFLAGS = $(STRESS_CPPFLAGS) $(CHECK_CFLAGS)
tests_stress_store_steps_LDADD = libstore_stress.la $(CHECK_LIBS) $(JANSSON_LIBS)
tests_stress_store_frozen_CPPFLAGS = $(STRESS_CPPFLAGS) $(CHECK_CFLAGS)
tests_stress_store_frozen_LDADD = libstore_stress.la $(CHECK_LIBS) $(JANSSON_LIBS)
tests_stress_store_litmus_CPPFLAGS = $(STRESS_CPPFLAGS) $(CHECK_CFLAGS)
tests_stress_store_litmus_LDADD = $(CHECK_LIBS)

# --- the whole dictionary, two nodes of it, against a model ---
check_PROGRAMS += tests/stress/model_client
tests_stress_model_client_SOURCES = tests/stress/model_client.c tests/stress/model_client.h \
  tests/stress/model_client_async.c tests/stress/model_client_queues.c \
  tests/stress/model_client_views.c tests/stress/model.c tests/stress/model.h
tests_stress_model_client_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_stress_model_client_LDADD = libclient.la
# For Python: without a sanitizer, whatever the build has.
check_LTLIBRARIES += tests/stress/libmodel.la
tests_stress_libmodel_la_SOURCES = tests/stress/model.c tests/stress/model.h
tests_stress_libmodel_la_CFLAGS = $(WARN_CFLAGS) -fvisibility=hidden
tests_stress_libmodel_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
dist_check_SCRIPTS += tests/stress/model.py
EXTRA_DIST += tests/stress/model_client.py
TESTS += tests/stress/model.py
