# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libbase.la
include_HEADERS += runtime/ddict_types.h
libbase_la_SOURCES = runtime/base/clock.c runtime/base/clock.h runtime/base/copy.c \
  runtime/base/copy.h runtime/base/defaults.h runtime/base/error.c runtime/base/error.h \
  runtime/base/hash.h runtime/base/hashset.c runtime/base/hashset.h runtime/base/hidden_key.h runtime/base/hostlist.c \
  runtime/base/hostlist.h runtime/base/io.c runtime/base/io.h runtime/base/log.c \
  runtime/base/log.h runtime/base/oom.c runtime/base/oom.h runtime/base/page.h \
  runtime/base/persist_text.c runtime/base/persist_text.h \
  runtime/base/process.c runtime/base/process.h runtime/base/size.c runtime/base/size.h runtime/base/spin.c \
  runtime/base/spin.h runtime/base/deal.h runtime/base/shadow.h runtime/base/stats.c runtime/base/stats.h runtime/base/text.c \
  runtime/base/text.h runtime/base/timers.c runtime/base/timers.h runtime/base/user.c \
  runtime/base/user.h runtime/base/vec.h runtime/base/versions.h runtime/base/verb.c \
  runtime/base/verb.h
libbase_la_SOURCES += runtime/base/persist_ids.c runtime/base/persist_ids.h
libbase_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
libbase_la_LIBADD = $(JANSSON_LIBS)
