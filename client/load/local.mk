# SPDX-License-Identifier: Apache-2.0
# ddict-load, what `ddict load` becomes. Only it needs libarchive, libcurl and expat.
EXTRA_DIST += client/load/SETS
load_sources = client/load/archive.c client/load/array.c client/load/array.h client/load/array_file.c client/load/lines.c client/load/lines.h client/load/gunzip.c client/load/gunzip.h client/load/input.c client/load/input.h client/load/leader.c client/load/load.h \
  client/load/main.c client/load/names.c client/load/names.h client/load/pack.h client/load/plan.c client/load/progress.c client/load/set.c client/load/signals.c \
  client/load/sink.c client/load/source.h client/load/source_archive.h client/load/source_dir.c client/load/source_fasta.c client/load/source_idx.c \
  client/load/source_lines.c client/load/source_npy.c client/load/source_s3.c client/load/s3_config.c client/load/s3_config.h \
  client/load/s3_http.c client/load/s3_http.h client/load/s3_inside.h client/load/s3_list.c client/load/s3_sign.c client/load/s3_sign.h client/load/source_tar.c client/load/source_zip.c client/load/sources.c client/load/sources.h \
  client/load/state.c client/load/take.c client/load/worker.c
if BUILD_LOAD
bin_PROGRAMS += ddict-load
ddict_load_SOURCES = $(load_sources)
ddict_load_CPPFLAGS = $(AM_CPPFLAGS) $(LIBARCHIVE_CFLAGS) $(ZLIB_CFLAGS) $(LIBCURL_CFLAGS) $(EXPAT_CFLAGS) $(SODIUM_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
ddict_load_LDADD = liblaunch.la libddict.la libbase.la $(LIBARCHIVE_LIBS) $(ZLIB_LIBS) $(LIBCURL_LIBS) $(EXPAT_LIBS) $(SODIUM_LIBS) $(JANSSON_LIBS) $(XXHASH_LIBS) -lm
else
EXTRA_DIST += $(load_sources)
endif
