# SPDX-License-Identifier: Apache-2.0
# A page changes with the code it describes; tests/unit/documents.t looks whether all options are there.
dist_man_MANS += doc/ddict.1 doc/libddict.3 doc/libddict-runtime.3 doc/ddictd.8 doc/ddict.conf.5
if BUILD_SPANK
dist_man_MANS += doc/ddict-plugin.8
endif
TESTS += tests/unit/documents.t tests/unit/hardening.t
EXTRA_DIST += tests/unit/documents.t tests/unit/hardening.t
# Made by make -C tests/bench peers ARGS=--page
EXTRA_DIST += doc/performance.md doc/performance-notes.md doc/loading.md doc/security.md
