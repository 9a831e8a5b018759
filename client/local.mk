# SPDX-License-Identifier: Apache-2.0
# libclient.la: all of libddict, for its unit tests too, which see its insides. libreader.la brings libbase.la with it.
noinst_LTLIBRARIES += libclient.la
libclient_la_SOURCES = client/handle.h client/session.c client/attach.c client/lease.c client/lease.h \
  client/port.c client/port.h client/port_inside.h client/reply.c client/wait.c client/ask.c client/ask.h client/local.c client/local.h \
  client/put.c client/get.c client/view.h client/put_many.c client/get_many.c client/iter.c client/queue.c client/sub.c client/whole.c client/probe_ask.c client/probe.h client/fork.c client/errmsg.c \
  client/reserve.c client/job.c client/jobs.c client/jobs.h client/submit.c
libclient_la_SOURCES += client/cached.c client/cached.h client/freeze.c
libclient_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS) $(JANSSON_CFLAGS)
libclient_la_LIBADD = libwireclient.la libreader.la $(JANSSON_LIBS)

lib_LTLIBRARIES += libddict.la
include_HEADERS += client/ddict.h
libddict_la_SOURCES =
# nodelete: threads end and processes fork through our handlers after a dlclose() too.
libddict_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^ddict_' -Wl,-z,nodelete
libddict_la_LIBADD = libclient.la

# The command. Its verbs use libddict as any program does; libbase for sizes and JSON.
bin_PROGRAMS += ddict
ddict_SOURCES = client/cmd_main.c client/cmd.h client/cmd_stats.c client/cmd_load.c client/sets.c client/sets.h client/cmd_ls.c client/cmd_value.c client/keytext.c client/keytext.h client/npy.c client/npy.h \
  client/figures.c client/figures.h client/table.c client/table.h client/cmd_report.c client/cmd_socket.c client/cmd_results.c client/results_file.c client/results_file.h client/folder_below.c client/folder_below.h client/results_plot.c client/cmd_watch.c client/record.c client/record.h \
  client/record_find.c client/record_find.h client/report_print.c client/report_print.h \
  client/cmd_save.c client/save/save.h client/save/save.c client/save/seen.c client/save/seen.h client/save/stage.c client/save/stage.h client/save/files.c client/save/restore.c client/save/manifest.c client/save/progress.c \
  client/save/dump.h client/save/dump_format.h client/save/dump_in.c client/save/dump_out.c client/bench.c client/bench.h client/bench_run.c client/bench_work.c client/bench_keys.c client/bench_report.c client/bench_plot.c client/bench_net.c client/probe.c
ddict_SOURCES += client/cmd_freeze.c
EXTRA_DIST += client/save/DUMP
ddict_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
ddict_LDADD = liblaunch.la libplace.la libddict.la libwireclient.la libbase.la $(JANSSON_LIBS) $(XXHASH_LIBS) -lm
