# SPDX-License-Identifier: Apache-2.0
# librt-libc.la: the parts of the runtime that need nothing but libc, for programs that may need
# nothing else.
noinst_LTLIBRARIES += librt-libc.la
librt_libc_la_SOURCES = runtime/base/clock.c runtime/base/error.c runtime/base/hashset.c \
  runtime/base/io.c runtime/base/oom.c \
  runtime/base/persist_text.c runtime/base/process.c runtime/base/size.c runtime/base/text.c runtime/base/user.c \
  runtime/launch/command.c runtime/launch/load_spec.c runtime/launch/option_table.c \
  runtime/launch/site.c runtime/launch/sizing.c runtime/launch/startup_lines.c runtime/launch/text_keep.c \
  runtime/place/cpus.c runtime/place/gpu.c runtime/place/gpu_ask.c runtime/place/gpu_bind.c \
  runtime/place/gpu_blob.c runtime/place/gpu_env.c runtime/place/gpu_order.c \
  runtime/place/meet_ask.c runtime/place/meet_ask.h runtime/place/torch_env.c \
  runtime/place/torch_env.h runtime/wire/attach.c
librt_libc_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
