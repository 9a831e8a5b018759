# SPDX-License-Identifier: Apache-2.0
# What the plugin shares with the runtime is compiled into it: it may need nothing but libc.
if BUILD_SPANK
plugin_LTLIBRARIES = ddict.la
PLUGIN_PLACE = runtime/place/torch_env.c runtime/place/meet_ask.c runtime/place/gpu_ask.c runtime/place/gpu_blob.c runtime/place/gpu_bind.c \
  runtime/place/gpu_env.c runtime/place/gpu_order.c runtime/place/gpu.c runtime/place/cpus.c runtime/wire/attach.c runtime/base/user.c
ddict_la_SOURCES = plugin/plugin.c plugin/plugin.h plugin/options.c plugin/local.c plugin/remote.c plugin/batch.c \
  plugin/leave.c plugin/note.c plugin/script.c plugin/belongs.c plugin/request.c plugin/up.c plugin/tasks.c plugin/torch.c plugin/gpu.c $(PLUGIN_PLACE) runtime/launch/site.c runtime/launch/intake.c runtime/launch/ask.c runtime/launch/command.c runtime/launch/lines.c runtime/base/size.c runtime/base/clock.c runtime/base/error.c runtime/base/process.c runtime/base/oom.c runtime/base/text.c
ddict_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS) $(XXHASH_CFLAGS)
ddict_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
ddict_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,nodelete \
  -export-symbols-regex '^(plugin_(name|type|version)|slurm_spank_.*|spank_plugin_version)$$'
if HAVE_CHECK
check_PROGRAMS += tests/unit/plugin_options
TESTS += tests/unit/plugin_options
tests_unit_plugin_options_SOURCES = tests/unit/plugin_options.c tests/unit/launch_test.h $(ddict_la_SOURCES)
tests_unit_plugin_options_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS) $(XXHASH_CFLAGS) $(CHECK_CFLAGS) -I$(top_srcdir) -I$(top_srcdir)/tests/unit
tests_unit_plugin_options_LDADD = $(CHECK_LIBS)
check_PROGRAMS += tests/unit/plugin_leave
TESTS += tests/unit/plugin_leave
tests_unit_plugin_leave_SOURCES = tests/unit/plugin_leave.c tests/unit/launch_test.h plugin/leave.c
tests_unit_plugin_leave_CPPFLAGS = $(tests_unit_plugin_options_CPPFLAGS)
tests_unit_plugin_leave_LDADD = $(CHECK_LIBS) -lpthread
check_PROGRAMS += tests/unit/plugin_spank
TESTS += tests/unit/plugin_spank
tests_unit_plugin_spank_SOURCES = tests/unit/plugin_spank.c tests/unit/plugin_fake.c tests/unit/plugin_fake.h tests/unit/plugin_host.c tests/unit/plugin_host.h tests/unit/launch_test.h $(ddict_la_SOURCES)
tests_unit_plugin_spank_CPPFLAGS = $(tests_unit_plugin_options_CPPFLAGS)
tests_unit_plugin_spank_LDADD = $(CHECK_LIBS)
check_PROGRAMS += tests/unit/plugin_typed
TESTS += tests/unit/plugin_typed
tests_unit_plugin_typed_SOURCES = tests/unit/plugin_typed.c tests/unit/plugin_fake.c tests/unit/plugin_fake.h tests/unit/plugin_host.c tests/unit/plugin_host.h tests/unit/launch_test.h $(ddict_la_SOURCES)
tests_unit_plugin_typed_CPPFLAGS = $(tests_unit_plugin_options_CPPFLAGS)
tests_unit_plugin_typed_LDADD = $(CHECK_LIBS)
endif
endif
sysconfexampledir = $(docdir)/examples/plugstack.conf.d
dist_sysconfexample_DATA = etc/plugstack.conf.d/ddict.conf
