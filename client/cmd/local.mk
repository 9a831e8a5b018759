# SPDX-License-Identifier: Apache-2.0
# The command. Its verbs use libddict as any program does; libbase for sizes and JSON.
bin_PROGRAMS += ddict
ddict_SOURCES = $(client_common_sources) $(client_save_sources) client/cmd/bind.c \
  client/cmd/apply.c client/cmd/bind.h client/cmd/change.c client/cmd/cmd.h client/cmd/copy.c client/cmd/freeze.c \
  client/cmd/get_files.c client/cmd/get_files.h client/cmd/load.c client/cmd/ls.c \
  client/cmd/ls_sets.c client/cmd/ls_sets.h client/cmd/main.c client/cmd/runtime.c \
  client/cmd/save.c client/cmd/socket.c client/cmd/stats.c client/cmd/value.c \
  client/cmd/value_file.c client/cmd/value_file.h client/cmd/verbs.h client/cmd/watch.c \
  client/cmd/bench/bench.c client/cmd/bench/bench.h client/cmd/bench/bench_keys.c \
  client/cmd/bench/bench_net.c client/cmd/bench/bench_plot.c client/cmd/bench/bench_report.c \
  client/cmd/bench/bench_run.c client/cmd/bench/bench_work.c client/cmd/bench/probe.c \
  client/cmd/report/record_find.c client/cmd/report/record_find.h client/cmd/report/record_read.c \
  client/cmd/report/record_read.h client/cmd/report/report.c client/cmd/report/report_print.c \
  client/cmd/report/report_print.h client/cmd/results/results.c client/cmd/results/results_file.c \
  client/cmd/results/results_file.h client/cmd/results/results_plot.c \
  client/cmd/results/results_plot.h client/lib/stats_public.c \
  runtime/place/gpu_ask.c
ddict_SOURCES += client/cmd/ls_published.c client/cmd/ls_published.h client/cmd/value_kind.h
ddict_SOURCES += client/cmd/front.c client/cmd/front.h client/cmd/save_front.c client/cmd/save_line.h \
  client/cmd/save_state.c client/cmd/save_work.c client/cmd/states.c
ddict_SOURCES += client/cmd/stats_metrics.c client/cmd/stats_metrics.h
ddict_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) -I$(top_srcdir)/client/rt
ddict_LDADD = liblaunch.la libplace.la libddict.la libddict-runtime.la libtopology.la libgpu.la \
  libwireclient.la libbase.la $(JANSSON_LIBS) $(XXHASH_LIBS) -lm

# For bash; in a build folder tests/unit/completion.t calls it.
dist_bashcompletion_DATA = client/cmd/completion/ddict
