# SPDX-License-Identifier: Apache-2.0
# libplugin.la: the plugin, for its unit tests too. It may need nothing but libc.
if BUILD_SPANK
noinst_LTLIBRARIES += libplugin.la
libplugin_la_SOURCES = plugin/batch_end.c plugin/batch_end.h plugin/batch_task.c \
  plugin/batch_task.h plugin/ddict_up.c plugin/ddict_up.h plugin/dictionary.c plugin/dictionary.h \
  plugin/fail.c plugin/fail.h plugin/gpu.c plugin/gpu.h plugin/job_process.c plugin/job_process.h \
  plugin/options.c plugin/options.h plugin/plugin.c plugin/request.c plugin/request.h \
  plugin/slurmd_log.c plugin/slurmd_log.h plugin/srun.c plugin/srun.h plugin/srun_detach.c \
  plugin/srun_detach.h plugin/step_pipe.c plugin/step_pipe.h plugin/task.c plugin/task.h \
  plugin/task_env.c plugin/task_env.h plugin/torch.c plugin/torch.h
libplugin_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS) $(XXHASH_CFLAGS)
libplugin_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
libplugin_la_LIBADD = librt-libc.la
plugin_LTLIBRARIES = ddict.la
ddict_la_SOURCES =
ddict_la_LIBADD = libplugin.la
ddict_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,nodelete \
  -export-symbols-regex '^(plugin_(name|type|version)|slurm_spank_.*|spank_plugin_version)$$'
dist_check_SCRIPTS += tests/local/plugin_for.sh
TESTS += tests/local/plugin_for.sh
if HAVE_CHECK
check_PROGRAMS += tests/unit/plugin_options
TESTS += tests/unit/plugin_options
tests_unit_plugin_options_SOURCES = tests/unit/plugin_options.c tests/unit/launch_test.h
tests_unit_plugin_options_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS) $(XXHASH_CFLAGS) \
  $(CHECK_CFLAGS) -I$(top_srcdir) -I$(top_srcdir)/tests/unit
tests_unit_plugin_options_LDADD = libplugin.la $(CHECK_LIBS)
check_PROGRAMS += tests/unit/plugin_up
TESTS += tests/unit/plugin_up
tests_unit_plugin_up_SOURCES = tests/unit/plugin_up.c tests/unit/launch_test.h
tests_unit_plugin_up_CPPFLAGS = $(tests_unit_plugin_options_CPPFLAGS)
tests_unit_plugin_up_LDADD = libplugin.la $(CHECK_LIBS)
check_PROGRAMS += tests/unit/plugin_srun_detach
TESTS += tests/unit/plugin_srun_detach
tests_unit_plugin_srun_detach_SOURCES = tests/unit/plugin_srun_detach.c tests/unit/launch_test.h \
  plugin/srun_detach.c
tests_unit_plugin_srun_detach_CPPFLAGS = $(tests_unit_plugin_options_CPPFLAGS)
tests_unit_plugin_srun_detach_LDADD = $(CHECK_LIBS) -lpthread
check_PROGRAMS += tests/unit/plugin_spank
TESTS += tests/unit/plugin_spank
tests_unit_plugin_spank_SOURCES = tests/unit/plugin_spank.c tests/unit/plugin_fake.c \
  tests/unit/plugin_fake.h tests/unit/plugin_host.c tests/unit/plugin_host.h \
  tests/unit/launch_test.h
tests_unit_plugin_spank_CPPFLAGS = $(tests_unit_plugin_options_CPPFLAGS)
tests_unit_plugin_spank_LDADD = libplugin.la $(CHECK_LIBS)
check_PROGRAMS += tests/unit/plugin_typed
TESTS += tests/unit/plugin_typed
tests_unit_plugin_typed_SOURCES = tests/unit/plugin_typed.c tests/unit/plugin_fake.c \
  tests/unit/plugin_fake.h tests/unit/plugin_host.c tests/unit/plugin_host.h \
  tests/unit/launch_test.h
tests_unit_plugin_typed_CPPFLAGS = $(tests_unit_plugin_options_CPPFLAGS)
tests_unit_plugin_typed_LDADD = libplugin.la $(CHECK_LIBS)
endif
endif
sysconfexampledir = $(docdir)/examples/plugstack.conf.d
dist_sysconfexample_DATA = etc/plugstack.conf.d/ddict.conf
