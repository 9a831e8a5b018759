# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += liblaunch.la
liblaunch_la_SOURCES = runtime/launch/ask.c runtime/launch/ask.h runtime/launch/command.c runtime/launch/command.h \
  runtime/launch/hidden.c runtime/launch/hidden.h runtime/launch/hostlist.c runtime/launch/hostlist.h runtime/launch/launch.h \
  runtime/launch/lines.c runtime/launch/lines.h runtime/launch/options.c runtime/launch/options.h runtime/launch/plan.c \
  runtime/launch/plan.h runtime/launch/run.c runtime/launch/serve.c runtime/launch/serve.h runtime/launch/starter.c \
  runtime/launch/starter.h runtime/launch/step.c runtime/launch/step.h runtime/launch/up.c
liblaunch_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
liblaunch_la_LIBADD = libbase.la $(JANSSON_LIBS)
EXTRA_DIST += runtime/launch/HANDSHAKE
