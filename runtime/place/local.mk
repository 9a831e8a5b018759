# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libplace.la
include_HEADERS += client/rt/ddict_runtime.h
libplace_la_SOURCES = runtime/place/place.c runtime/place/place.h runtime/place/backend.h \
  runtime/place/pmix.c runtime/place/pmix_lib.c runtime/place/pmix_lib.h runtime/place/slurm_env.c \
  runtime/place/launcher_env.c runtime/place/rank_name.c runtime/place/same_user.c \
  runtime/place/mpi_order.c runtime/place/mpi_order.h
libplace_la_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS) -DDDICT_PMIX_LIBDIR='"$(PMIX_LIBDIR)"'
libplace_la_LIBADD = -ldl
EXTRA_DIST += runtime/place/meet_ask.c runtime/place/meet_ask.h

# The GPUs of a node, as plain data (libgpu.la, for ranks) and found by hwloc (libtopology.la, for ddictd and the command). Both want
# libbase at the final link, the second also the first.
noinst_LTLIBRARIES += libgpu.la libtopology.la
libgpu_la_SOURCES = runtime/place/cpus.c runtime/place/cpus.h runtime/place/gpu.c \
  runtime/place/gpu.h runtime/place/gpu_order.c runtime/place/gpu_order.h runtime/place/gpu_env.c \
  runtime/place/gpu_env.h runtime/place/gpu_bind.c runtime/place/gpu_bind.h runtime/place/numa.c \
  runtime/place/numa.h runtime/place/gpu_blob.c runtime/place/gpu_blob.h
libtopology_la_SOURCES = runtime/place/topology.c runtime/place/topology.h \
  runtime/place/distance.c runtime/place/distance.h runtime/place/gpu_find.c \
  runtime/place/numa_find.c
libtopology_la_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CFLAGS)
libtopology_la_LIBADD = $(HWLOC_LIBS)

if HAVE_CHECK
PLACE_TESTS = tests/unit/place_slurm_env
check_PROGRAMS += $(PLACE_TESTS)
TESTS += $(PLACE_TESTS)
tests_unit_place_slurm_env_SOURCES = tests/unit/place_slurm_env.c tests/unit/launch_test.h
tests_unit_place_slurm_env_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
tests_unit_place_slurm_env_LDADD = libplace.la libbase.la $(CHECK_LIBS)

GPU_TESTS = tests/unit/place_cpus tests/unit/place_gpu tests/unit/place_gpu_env \
  tests/unit/place_gpu_order tests/unit/place_gpu_bind tests/unit/place_numa
check_PROGRAMS += $(GPU_TESTS)
TESTS += $(GPU_TESTS)
EXTRA_DIST += tests/unit/gpu_test.h tests/unit/machine_xml.h
# The command, on machines made up by a program.
check_PROGRAMS += tests/local/machine
tests_local_machine_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
dist_check_SCRIPTS += tests/local/bind.sh tests/local/numa.py
TESTS += tests/local/bind.sh tests/local/numa.py
GPU_TEST_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
GPU_TEST_LIBS = libtopology.la libgpu.la libbase.la $(CHECK_LIBS)
tests_unit_place_cpus_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
tests_unit_place_cpus_LDADD = $(GPU_TEST_LIBS)
tests_unit_place_gpu_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
tests_unit_place_gpu_LDADD = $(GPU_TEST_LIBS)
tests_unit_place_gpu_env_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
tests_unit_place_gpu_env_LDADD = $(GPU_TEST_LIBS)
tests_unit_place_gpu_bind_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
tests_unit_place_gpu_bind_LDADD = $(GPU_TEST_LIBS)
tests_unit_place_numa_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
tests_unit_place_numa_LDADD = $(GPU_TEST_LIBS)
tests_unit_place_gpu_order_CPPFLAGS = $(GPU_TEST_CPPFLAGS)
tests_unit_place_gpu_order_LDADD = $(GPU_TEST_LIBS)
endif
