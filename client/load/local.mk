# SPDX-License-Identifier: Apache-2.0
# ddict-load, what `ddict load` becomes. Only it needs libarchive, libcurl and expat.
load_sources = client/load/batch_writer.c client/load/batch_writer.h client/load/beat.c \
  client/load/beat.h client/load/complain.c client/load/complain.h client/load/existing_set.c \
  client/load/existing_set.h client/load/leader.c client/load/leader.h client/load/load.h \
  client/load/losses.c client/load/losses.h client/load/lost_items.c client/load/lost_items.h \
  client/load/lost_set.c client/load/lost_set.h client/load/names.c client/load/names.h \
  client/load/ownership.c client/load/ownership.h client/load/pack.h client/load/plan.c \
  client/load/plan.h client/load/progress.c client/load/progress.h client/load/refill.c \
  client/load/refill.h client/load/set.c client/load/set.h client/load/set_key.c \
  client/load/set_key.h client/load/set_name.c client/load/set_name.h client/load/set_refill.c \
  client/load/set_refill.h client/load/signals.c client/load/signals.h client/load/state.c \
  client/load/state.h client/load/summary.c client/load/summary.h client/load/text_json.c \
  client/load/text_json.h client/load/tries.c client/load/tries.h client/load/wanted.c \
  client/load/wanted.h client/load/worker.c client/load/worker.h client/load/format/array.c \
  client/load/format/array.h client/load/format/array_file.c client/load/format/gunzip.c \
  client/load/format/gunzip.h client/load/format/input.c client/load/format/input.h \
  client/load/format/lines.c client/load/format/lines.h client/load/format/source.h \
  client/load/format/source_archive.c client/load/format/source_archive.h \
  client/load/format/source_dir.c client/load/format/source_fasta.c \
  client/load/format/source_idx.c client/load/format/source_lines.c \
  client/load/format/source_npy.c client/load/format/source_tar.c \
  client/load/format/source_zip.c client/load/format/sources.c client/load/format/sources.h \
  client/load/s3/s3.c client/load/s3/s3.h client/load/s3/s3_config.c client/load/s3/s3_config.h \
  client/load/s3/s3_list.c client/load/s3/s3_list.h client/load/s3/s3_page.c \
  client/load/s3/s3_page.h client/load/s3/s3_sign.c client/load/s3/s3_sign.h \
  client/load/s3/s3_transfer.c client/load/s3/s3_transfer.h client/load/s3/source_s3.c
if BUILD_LOAD
bin_PROGRAMS += ddict-load
ddict_load_SOURCES = client/load/main.c $(load_sources) client/common/lost_keys.c \
  client/common/lost_keys.h
ddict_load_CPPFLAGS = $(AM_CPPFLAGS) $(LIBARCHIVE_CFLAGS) $(ZLIB_CFLAGS) $(LIBCURL_CFLAGS) \
  $(EXPAT_CFLAGS) $(SODIUM_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
ddict_load_LDADD = liblaunch.la libddict.la libbase.la $(LIBARCHIVE_LIBS) $(ZLIB_LIBS) \
  $(LIBCURL_LIBS) $(EXPAT_LIBS) $(SODIUM_LIBS) $(JANSSON_LIBS) $(XXHASH_LIBS) -lm
else
EXTRA_DIST += client/load/main.c $(load_sources)
endif
