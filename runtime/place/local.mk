# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libplace.la
include_HEADERS += runtime/place/ddict_runtime.h
libplace_la_SOURCES = runtime/place/place.c runtime/place/place.h runtime/place/backend.h runtime/place/pmix.c \
  runtime/place/pmix_lib.c runtime/place/pmix_lib.h runtime/place/slurm_env.c runtime/place/launcher_env.c runtime/place/rank_name.c
libplace_la_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS) -DDDICT_PMIX_LIBDIR='"$(PMIX_LIBDIR)"'
libplace_la_LIBADD = -ldl

# Plain data about a node, for ranks: no hwloc.
noinst_LTLIBRARIES += libgpu.la
libgpu_la_SOURCES = runtime/place/cpus.c runtime/place/cpus.h
libgpu_la_LIBADD = libbase.la

if HAVE_CHECK
PLACE_TESTS = tests/unit/place_slurm_env
check_PROGRAMS += $(PLACE_TESTS)
TESTS += $(PLACE_TESTS)
tests_unit_place_slurm_env_SOURCES = tests/unit/place_slurm_env.c tests/unit/launch_test.h
tests_unit_place_slurm_env_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
tests_unit_place_slurm_env_LDADD = libplace.la libbase.la $(CHECK_LIBS)

GPU_TESTS = tests/unit/place_cpus
check_PROGRAMS += $(GPU_TESTS)
TESTS += $(GPU_TESTS)
GPU_TEST_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
GPU_TEST_LIBS = libgpu.la libbase.la $(CHECK_LIBS)
tests_unit_place_cpus_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
tests_unit_place_cpus_LDADD = $(GPU_TEST_LIBS)
endif
