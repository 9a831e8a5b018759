# SPDX-License-Identifier: Apache-2.0
# A page changes with the code that it describes: tests/unit/documents.t and tests/unit/manual.t compare them.
dist_man_MANS += doc/man/ddict.1 doc/man/ddict.conf.5 doc/man/ddictd.8 doc/man/libddict.3 \
  doc/man/libddict-runtime.3
dist_man_MANS += doc/man/ddict-add.1 doc/man/ddict-append.1 doc/man/ddict-bench.1 \
  doc/man/ddict-down.1 doc/man/ddict-env.1 doc/man/ddict-apply.1 doc/man/ddict-freeze.1 \
  doc/man/ddict-get.1 doc/man/ddict-load.1 doc/man/ddict-ls.1 \
  doc/man/ddict-put.1 doc/man/ddict-report.1 doc/man/ddict-restore.1 doc/man/ddict-results.1 \
  doc/man/ddict-rm.1 doc/man/ddict-run.1 doc/man/ddict-runtime.1 doc/man/ddict-save.1 \
  doc/man/ddict-socket.1 doc/man/ddict-stats.1 doc/man/ddict-up.1 doc/man/ddict-watch.1
dist_man_MANS += doc/man/ddict-copy.1
dist_man_MANS += doc/man/ddict-states.1
dist_man_MANS += doc/man/ddict_alive.3 doc/man/ddict_add.3 doc/man/ddict_async.3 \
  doc/man/ddict_attach.3 doc/man/ddict_up.3 doc/man/ddict_checkpoint.3 doc/man/ddict_del.3 \
  doc/man/ddict_freeze.3 doc/man/ddict_get.3 doc/man/ddict_iter_open.3 doc/man/ddict_key_str.3 \
  doc/man/ddict_persist.3 doc/man/ddict_push.3 doc/man/ddict_publish.3 doc/man/ddict_put.3 \
  doc/man/ddict_put_array.3 doc/man/ddict_reserve.3 doc/man/ddict_stats.3 \
  doc/man/ddict_strerror.3 \
  doc/man/ddict_subscribe.3
if BUILD_SPANK
dist_man_MANS += doc/man/ddict-plugin.8
endif
check_PROGRAMS += tests/unit/option_list
tests_unit_option_list_SOURCES = tests/unit/option_list.c
tests_unit_option_list_LDADD = liblaunch.la libbase.la
check_PROGRAMS += tests/unit/layout_list
tests_unit_layout_list_SOURCES = tests/unit/layout_list.c
TESTS += tests/unit/format.t tests/unit/layers.t tests/unit/documents.t tests/unit/manual.t tests/unit/options.t tests/unit/completion.t tests/unit/hardening.t tests/unit/headers.t tests/unit/orders.t
EXTRA_DIST += tests/unit/format.t tests/unit/layers.t tests/unit/documents.t tests/unit/manual.t tests/unit/options.t tests/unit/completion.t tests/unit/hardening.t tests/unit/headers.t tests/unit/orders.t
EXTRA_DIST += doc/dragon-surface.md tests/unit/surface.t
TESTS += tests/unit/surface.t
# Made by make -C tests/bench peers ARGS=--page
EXTRA_DIST += doc/performance.md doc/performance-notes.md
EXTRA_DIST += doc/README.md doc/glossary.md doc/loading.md doc/security.md doc/tested.md \
  doc/tested-nodes.md doc/tested-settings.md doc/workflows.md doc/overview.svg doc/from-dragon.md
# The contracts, which the source quotes by name and number
EXTRA_DIST += doc/PROTOCOL.md doc/LAYOUT.md doc/STARTUP.md doc/ELECTION.md doc/RECORD.md \
  doc/SAVE.md doc/SETS.md doc/FORMAT.md

# A page of several names is found by each of them. Lines "PAGE NAME SECTION".
more_names = for page in $(dist_man_MANS); do sed -n '/^\.SH NAME/{n;s/ \\- .*//;s/[\\,]//g;p;}' \
  $(srcdir)/$$page | tr ' ' '\n' | sed "s|^|$$(basename $$page) |;s|$$| $${page\#\#*.}|"; done | \
  awk '$$1 != $$2 "." $$3'
after_install += install-names
after_uninstall += uninstall-names
install-names:
	$(more_names) | while read page name section; do \
	    ln -sf $$page $(DESTDIR)$(mandir)/man$$section/$$name.$$section || exit 1; done
uninstall-names:
	$(more_names) | while read page name section; do rm -f $(DESTDIR)$(mandir)/man$$section/$$name.$$section; done
