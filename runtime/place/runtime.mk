# SPDX-License-Identifier: Apache-2.0
# Included after libddict, which is installed before it.
lib_LTLIBRARIES += libddict-runtime.la
pkgconfig_DATA += ddict-runtime.pc
libddict_runtime_la_SOURCES = runtime/place/runtime.c runtime/place/gather.c runtime/place/gather.h runtime/place/runtime_gpu.c \
  runtime/place/gpu_read.c runtime/place/gpu_ask.c runtime/place/gpu_module.h
libddict_runtime_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/runtime/place -DDDICT_PKGLIBDIR='"$(pkglibdir)"'
# nodelete: a process forks and exits through our handlers after a dlclose() too.
libddict_runtime_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^ddict_rt_' -Wl,-z,nodelete
libddict_runtime_la_LIBADD = libplace.la libgpu.la libwireclient.la libddict.la libbase.la

# Opened by libddict-runtime when it is asked to bind GPUs: the only one of the libraries that wants hwloc.
pkglib_LTLIBRARIES = ddict-topology.la
ddict_topology_la_SOURCES = runtime/place/gpu_module.c
ddict_topology_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^gpu_module_read_$$'
ddict_topology_la_LIBADD = libtopology.la libgpu.la libbase.la

ddict_SOURCES += client/cmd_runtime.c client/cmd_bind.c client/cmd_bind.h runtime/place/gpu_ask.c
ddict_CPPFLAGS += -I$(top_srcdir)/runtime/place
ddict_LDADD += libddict-runtime.la libtopology.la libgpu.la libwireclient.la

if HAVE_CHECK
check_PROGRAMS += tests/unit/runtime_gpu
TESTS += tests/unit/runtime_gpu
tests_unit_runtime_gpu_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit -I$(top_srcdir)/runtime/place
tests_unit_runtime_gpu_LDADD = libddict-runtime.la $(CHECK_LIBS)
endif
