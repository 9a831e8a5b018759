# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += liblaunch.la
liblaunch_la_SOURCES = runtime/launch/sizing.c runtime/launch/sizing.h runtime/launch/command.c \
  runtime/launch/command.h runtime/launch/step_argv.c runtime/launch/step_argv.h \
  runtime/launch/launch.h runtime/launch/load_spec.c runtime/launch/load_spec.h \
  runtime/launch/loading.c runtime/launch/loading.h runtime/launch/startup_lines.c \
  runtime/launch/startup_lines.h runtime/launch/option_table.c runtime/launch/option_table.h \
  runtime/launch/option_rows.h runtime/launch/options.c runtime/launch/options.h \
  runtime/launch/plan.c runtime/launch/plan.h runtime/launch/record_path.c \
  runtime/launch/record_path.h runtime/launch/reason.c runtime/launch/reason.h \
  runtime/launch/relay.c runtime/launch/relay.h runtime/launch/fan_out.c runtime/launch/fan_out.h \
  runtime/launch/ranks.c runtime/launch/ranks.h runtime/place/torch_env.c \
  runtime/place/torch_env.h runtime/launch/run.c runtime/launch/up_run_common.c \
  runtime/launch/up_run_common.h runtime/launch/site.c runtime/launch/site.h \
  runtime/launch/srun_leave.c runtime/launch/srun_leave.h runtime/launch/sruns.c \
  runtime/launch/sruns.h runtime/launch/starter.c runtime/launch/starter.h runtime/launch/step.c runtime/launch/step.h \
  runtime/launch/tasks.c runtime/launch/tasks.h runtime/launch/tasks_end.c \
  runtime/launch/tasks_end.h runtime/launch/text_keep.c runtime/launch/text_keep.h \
  runtime/launch/up.c runtime/place/meet_ask.c runtime/store/memlimit.c
liblaunch_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(SODIUM_CFLAGS) $(XXHASH_CFLAGS)
liblaunch_la_LIBADD = libbase.la $(JANSSON_LIBS) $(SODIUM_LIBS)
siteexampledir = $(docdir)/examples
dist_siteexample_DATA = etc/ddict.conf
install-data-local: # where the administrator's ddict.conf is looked for
	$(MKDIR_P) "$(DESTDIR)$(sysconfdir)"
EXTRA_DIST += tests/slurm/launch_hand.t tests/slurm/stays.sh tests/slurm/launch_root.t \
  tests/slurm/launch_login.t tests/slurm/launch_site.t

dist_check_SCRIPTS += tests/local/ranks.sh tests/local/tasks.sh tests/local/sruns.sh
TESTS += tests/local/ranks.sh tests/local/tasks.sh tests/local/sruns.sh

if HAVE_CHECK
LAUNCH_TESTS = tests/unit/launch_sizing tests/unit/launch_site tests/unit/launch_record \
  tests/unit/launch_text tests/unit/launch_options tests/unit/launch_starter \
  tests/unit/launch_load_spec
check_PROGRAMS += $(LAUNCH_TESTS)
TESTS += $(LAUNCH_TESTS)
LAUNCH_TEST_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir)/tests/unit
LAUNCH_TEST_LIBS = liblaunch.la libbase.la $(CHECK_LIBS)
tests_unit_launch_sizing_SOURCES = tests/unit/launch_sizing.c tests/unit/launch_test.h
tests_unit_launch_sizing_CPPFLAGS = $(LAUNCH_TEST_CPPFLAGS)
tests_unit_launch_sizing_LDADD = $(LAUNCH_TEST_LIBS)
tests_unit_launch_site_SOURCES = tests/unit/launch_site.c tests/unit/launch_test.h
tests_unit_launch_site_CPPFLAGS = $(LAUNCH_TEST_CPPFLAGS)
tests_unit_launch_site_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc,--wrap=malloc
tests_unit_launch_site_LDADD = $(LAUNCH_TEST_LIBS)
tests_unit_launch_record_SOURCES = tests/unit/launch_record.c tests/unit/launch_test.h
tests_unit_launch_record_CPPFLAGS = $(LAUNCH_TEST_CPPFLAGS)
tests_unit_launch_record_LDADD = $(LAUNCH_TEST_LIBS)
tests_unit_launch_load_spec_SOURCES = tests/unit/launch_load_spec.c tests/unit/launch_test.h
tests_unit_launch_load_spec_CPPFLAGS = $(LAUNCH_TEST_CPPFLAGS)
tests_unit_launch_load_spec_LDADD = $(LAUNCH_TEST_LIBS)
tests_unit_launch_text_SOURCES = tests/unit/launch_text.c tests/unit/launch_test.h
tests_unit_launch_text_CPPFLAGS = $(LAUNCH_TEST_CPPFLAGS)
tests_unit_launch_text_LDADD = $(LAUNCH_TEST_LIBS)
tests_unit_launch_options_SOURCES = tests/unit/launch_options.c tests/unit/launch_test.h
tests_unit_launch_options_CPPFLAGS = $(LAUNCH_TEST_CPPFLAGS)
tests_unit_launch_options_LDADD = $(LAUNCH_TEST_LIBS)
tests_unit_launch_starter_SOURCES = tests/unit/launch_starter.c tests/unit/launch_test.h
tests_unit_launch_starter_CPPFLAGS = $(LAUNCH_TEST_CPPFLAGS)
tests_unit_launch_starter_LDADD = $(LAUNCH_TEST_LIBS)
endif
