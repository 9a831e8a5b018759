# SPDX-License-Identifier: Apache-2.0
# Included after libddict, which is installed before it.
lib_LTLIBRARIES += libddict-runtime.la
pkgconfig_DATA += ddict-runtime.pc
libddict_runtime_la_SOURCES = runtime/place/runtime.c runtime/place/gather.c runtime/place/gather.h
libddict_runtime_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/runtime/place
# nodelete: a process forks and exits through our handlers after a dlclose() too.
libddict_runtime_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^ddict_rt_' -Wl,-z,nodelete
libddict_runtime_la_LIBADD = libplace.la libddict.la libbase.la

ddict_SOURCES += client/cmd_runtime.c client/cmd_bind.c client/cmd_bind.h
ddict_CPPFLAGS += -I$(top_srcdir)/runtime/place
ddict_LDADD += libddict-runtime.la libtopology.la
