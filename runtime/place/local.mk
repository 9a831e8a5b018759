# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libplace.la
libplace_la_SOURCES = runtime/place/place.c runtime/place/place.h runtime/place/backend.h runtime/place/pmix.c \
  runtime/place/slurm_env.c
libplace_la_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CFLAGS)
libplace_la_LIBADD = $(PMIX_LIBS)
