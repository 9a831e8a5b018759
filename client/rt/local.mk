# SPDX-License-Identifier: Apache-2.0
# Included after libddict, which is installed before it.
lib_LTLIBRARIES += libddict-runtime.la
pkgconfig_DATA += ddict-runtime.pc
libddict_runtime_la_SOURCES = client/rt/runtime.c client/rt/exchange.c client/rt/exchange.h \
  client/rt/runtime_gpu.c client/rt/gpu_read.c runtime/place/gpu_ask.c client/rt/gpu_module.h
libddict_runtime_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/client/rt \
  -DDDICT_PKGLIBDIR='"$(pkglibdir)"'
# nodelete: a process forks and exits through our handlers after a dlclose() too.
libddict_runtime_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^ddict_rt_' \
  -Wl,-z,nodelete
libddict_runtime_la_LIBADD = libplace.la libgpu.la libwireclient.la libddict.la libbase.la

# Opened by libddict-runtime when it is asked to bind GPUs: the only one of the libraries that wants hwloc.
pkglib_LTLIBRARIES = ddict-topology.la
ddict_topology_la_SOURCES = client/rt/gpu_module.c
ddict_topology_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex \
  '^gpu_module_read_$$'
ddict_topology_la_LIBADD = libtopology.la libgpu.la libbase.la

if HAVE_CHECK
check_PROGRAMS += tests/unit/rt_gpu
TESTS += tests/unit/rt_gpu
tests_unit_rt_gpu_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit \
  -I$(top_srcdir)/client/rt
tests_unit_rt_gpu_LDADD = libddict-runtime.la $(CHECK_LIBS)
endif
