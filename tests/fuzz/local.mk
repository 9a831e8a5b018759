# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: tests/fuzz/NAME.c, with seeds in tests/fuzz/corpus/NAME. `make check` runs each over its seeds; `make fuzz` builds
# them once more, by clang with libFuzzer, in the folder fuzz of the build folder, and looks for inputs that do harm.
fuzz_targets = tests/fuzz/attach tests/fuzz/conn tests/fuzz/control tests/fuzz/dump tests/fuzz/gpu tests/fuzz/key tests/fuzz/lane tests/fuzz/lines \
  tests/fuzz/manifest tests/fuzz/memlimit tests/fuzz/node_info tests/fuzz/options tests/fuzz/plugin tests/fuzz/record \
  tests/fuzz/rendezvous tests/fuzz/replica_backup tests/fuzz/replica_primary tests/fuzz/site \
  tests/fuzz/size
if BUILD_LOAD
fuzz_load_kinds = tests/fuzz/load_fasta tests/fuzz/load_idx tests/fuzz/load_lines tests/fuzz/load_npy \
  tests/fuzz/load_npz tests/fuzz/load_tar tests/fuzz/load_zip
fuzz_targets += $(fuzz_load_kinds) tests/fuzz/s3_config tests/fuzz/s3_list
# All of ddict-load but its processes, and a dictionary without managers.
check_LTLIBRARIES += tests/fuzz/libload.la
tests_fuzz_libload_la_SOURCES = $(load_sources) tests/fuzz/fake_dict.c tests/fuzz/fake_dict.h
tests_fuzz_libload_la_CPPFLAGS = $(ddict_load_CPPFLAGS)
FUZZ_LOAD = $(FUZZ_MAIN) tests/fuzz/libload.la liblaunch.la libbase.la $(LIBARCHIVE_LIBS) $(ZLIB_LIBS) \
  $(LIBCURL_LIBS) $(EXPAT_LIBS) $(SODIUM_LIBS) $(JANSSON_LIBS) $(XXHASH_LIBS) -lm
tests_fuzz_load_fasta_SOURCES = tests/fuzz/load_fasta.c tests/fuzz/load.h tests/fuzz/fuzz.h
tests_fuzz_load_fasta_LDADD = $(FUZZ_LOAD)
tests_fuzz_load_idx_SOURCES = tests/fuzz/load_idx.c tests/fuzz/load.h tests/fuzz/fuzz.h
tests_fuzz_load_idx_LDADD = $(FUZZ_LOAD)
tests_fuzz_load_lines_SOURCES = tests/fuzz/load_lines.c tests/fuzz/load.h tests/fuzz/fuzz.h
tests_fuzz_load_lines_LDADD = $(FUZZ_LOAD)
tests_fuzz_load_npy_SOURCES = tests/fuzz/load_npy.c tests/fuzz/load.h tests/fuzz/fuzz.h
tests_fuzz_load_npy_LDADD = $(FUZZ_LOAD)
tests_fuzz_load_npz_SOURCES = tests/fuzz/load_npz.c tests/fuzz/load.h tests/fuzz/fuzz.h
tests_fuzz_load_npz_LDADD = $(FUZZ_LOAD)
tests_fuzz_load_tar_SOURCES = tests/fuzz/load_tar.c tests/fuzz/load.h tests/fuzz/fuzz.h
tests_fuzz_load_tar_LDADD = $(FUZZ_LOAD)
tests_fuzz_load_zip_SOURCES = tests/fuzz/load_zip.c tests/fuzz/load.h tests/fuzz/fuzz.h
tests_fuzz_load_zip_LDADD = $(FUZZ_LOAD)
tests_fuzz_s3_config_SOURCES = tests/fuzz/s3_config.c tests/fuzz/fuzz.h
tests_fuzz_s3_config_LDADD = $(FUZZ_LOAD)
tests_fuzz_s3_list_SOURCES = tests/fuzz/s3_list.c tests/fuzz/fuzz.h
tests_fuzz_s3_list_CPPFLAGS = $(AM_CPPFLAGS) $(EXPAT_CFLAGS)
tests_fuzz_s3_list_LDADD = $(FUZZ_LOAD)
else
EXTRA_DIST += tests/fuzz/fake_dict.c tests/fuzz/fake_dict.h tests/fuzz/load.h tests/fuzz/load_fasta.c \
  tests/fuzz/load_idx.c tests/fuzz/load_lines.c tests/fuzz/load_npy.c tests/fuzz/load_npz.c \
  tests/fuzz/load_tar.c tests/fuzz/load_zip.c tests/fuzz/s3_config.c tests/fuzz/s3_list.c
endif
check_PROGRAMS += $(fuzz_targets)
TESTS += $(fuzz_targets)
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/run tests/fuzz/seeds.py

# main(): with libFuzzer its own.
check_LTLIBRARIES += tests/fuzz/libseeds.la
tests_fuzz_libseeds_la_SOURCES = tests/fuzz/seeds.c tests/fuzz/fuzz.h
FUZZ_MAIN = tests/fuzz/libseeds.la

tests_fuzz_attach_SOURCES = tests/fuzz/attach.c tests/fuzz/fuzz.h
tests_fuzz_attach_LDADD = $(FUZZ_MAIN) libwireclient.la libbase.la
tests_fuzz_memlimit_SOURCES = tests/fuzz/memlimit.c tests/fuzz/fuzz.h
tests_fuzz_memlimit_LDADD = $(FUZZ_MAIN) libstore.la libbase.la
FUZZ_BUFFERS_WRAP = -Wl,--wrap=malloc,--wrap=free
tests_fuzz_conn_SOURCES = tests/fuzz/conn.c tests/fuzz/conn_buffers.h tests/fuzz/fuzz.h
tests_fuzz_conn_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_BUFFERS_WRAP)
tests_fuzz_conn_LDADD = $(FUZZ_MAIN) libwire.la libbase.la
# All of ddictd: its main() is none here.
tests_fuzz_control_SOURCES = tests/fuzz/control.c tests/fuzz/address.h tests/fuzz/fuzz.h $(ddictd_SOURCES)
tests_fuzz_control_CPPFLAGS = $(ddictd_CPPFLAGS) -Dmain=ddictd_main
tests_fuzz_control_CFLAGS = $(AM_CFLAGS) -Wno-missing-prototypes
tests_fuzz_control_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_ns,--wrap=log_line,--wrap=startup_print \
  -Wl,--wrap=startup_print_text,--wrap=record_writer_write
tests_fuzz_control_LDADD = $(FUZZ_MAIN) $(ddictd_LDADD)
tests_fuzz_dump_SOURCES = tests/fuzz/dump.c tests/fuzz/fuzz.h client/save/dump_in.c
tests_fuzz_dump_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
tests_fuzz_dump_LDADD = $(FUZZ_MAIN) libbase.la $(XXHASH_LIBS)
tests_fuzz_gpu_SOURCES = tests/fuzz/gpu.c tests/fuzz/fuzz.h
tests_fuzz_gpu_LDADD = $(FUZZ_MAIN) libgpu.la libbase.la
tests_fuzz_key_SOURCES = tests/fuzz/key.c tests/fuzz/fuzz.h client/common/key_text.c client/common/npy.c
tests_fuzz_key_LDADD = $(FUZZ_MAIN) libbase.la
tests_fuzz_lane_SOURCES = tests/fuzz/lane.c tests/fuzz/client.h tests/fuzz/fuzz.h
tests_fuzz_lane_CPPFLAGS = $(ddictd_CPPFLAGS)
tests_fuzz_lane_LDADD = $(FUZZ_MAIN) libmanager.a libstore.la libwire.la libplace.la libtopology.la libgpu.la libbase.la \
  $(SODIUM_LIBS) $(JANSSON_LIBS)
tests_fuzz_lines_SOURCES = tests/fuzz/lines.c tests/fuzz/fuzz.h
tests_fuzz_lines_LDADD = $(FUZZ_MAIN) liblaunch.la libbase.la
tests_fuzz_manifest_SOURCES = tests/fuzz/manifest.c tests/fuzz/fuzz.h client/save/manifest.c
tests_fuzz_manifest_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
tests_fuzz_manifest_LDADD = $(FUZZ_MAIN) libbase.la $(JANSSON_LIBS) $(XXHASH_LIBS)
tests_fuzz_node_info_SOURCES = tests/fuzz/node_info.c tests/fuzz/fuzz.h runtime/supervisor/node_info.c \
  runtime/supervisor/transport.c
tests_fuzz_node_info_LDADD = $(FUZZ_MAIN) libwire.la libbase.la
tests_fuzz_options_SOURCES = tests/fuzz/options.c tests/fuzz/fuzz.h
tests_fuzz_options_LDADD = $(FUZZ_MAIN) liblaunch.la libbase.la
tests_fuzz_plugin_SOURCES = tests/fuzz/plugin.c tests/fuzz/fuzz.h plugin/request.c plugin/job_process.c
tests_fuzz_plugin_LDADD = $(FUZZ_MAIN) liblaunch.la libbase.la
tests_fuzz_record_SOURCES = tests/fuzz/record.c tests/fuzz/fuzz.h client/cmd/report/record_read.c \
  client/cmd/report/report_print.c client/common/columns.c client/common/stats_table.c
tests_fuzz_record_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_record_LDADD = $(FUZZ_MAIN) libbase.la $(JANSSON_LIBS)
tests_fuzz_rendezvous_SOURCES = tests/fuzz/rendezvous.c tests/fuzz/fuzz.h runtime/supervisor/rendezvous.c
tests_fuzz_rendezvous_LDADD = $(FUZZ_MAIN) libwire.la libbase.la
FUZZ_REPLICA_WRAP = $(FUZZ_BUFFERS_WRAP) -Wl,--wrap=clock_ns,--wrap=log_line
tests_fuzz_replica_backup_SOURCES = tests/fuzz/replica_backup.c tests/fuzz/manager.h tests/fuzz/address.h \
  tests/fuzz/conn_buffers.h tests/fuzz/fuzz.h
tests_fuzz_replica_backup_CPPFLAGS = $(ddictd_CPPFLAGS)
tests_fuzz_replica_backup_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_REPLICA_WRAP)
tests_fuzz_replica_backup_LDADD = $(tests_fuzz_lane_LDADD)
tests_fuzz_replica_primary_SOURCES = tests/fuzz/replica_primary.c tests/fuzz/client.h tests/fuzz/manager.h \
  tests/fuzz/address.h tests/fuzz/conn_buffers.h tests/fuzz/fuzz.h
tests_fuzz_replica_primary_CPPFLAGS = $(ddictd_CPPFLAGS)
tests_fuzz_replica_primary_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_REPLICA_WRAP)
tests_fuzz_replica_primary_LDADD = $(tests_fuzz_lane_LDADD)
tests_fuzz_site_SOURCES = tests/fuzz/site.c tests/fuzz/fuzz.h
tests_fuzz_site_LDADD = $(FUZZ_MAIN) liblaunch.la libbase.la
tests_fuzz_size_SOURCES = tests/fuzz/size.c tests/fuzz/fuzz.h
tests_fuzz_size_LDADD = $(FUZZ_MAIN) libbase.la

FUZZ_SECONDS = 60
FUZZ_RUNS =
fuzz_configure = CC=$(CLANG) --enable-sanitize=address,undefined CFLAGS='-O1 -g -fsanitize=fuzzer-no-link' \
  --without-python --with-slurm='$(with_slurm)' --with-libarchive='$(with_libarchive)' --with-ofi='$(have_ofi)'
fuzz-programs: $(fuzz_targets)
fuzz:
	@test -n "$(CLANG)" || { echo "make fuzz: configure found no clang with libFuzzer; on Debian: contrib/install-packages fuzz" >&2; exit 1; }
	@test ! -e $(srcdir)/config.status || { echo "make fuzz wants a build folder of its own: make distclean, mkdir build, cd build, ../configure" >&2; exit 1; }
	$(MKDIR_P) fuzz
	test -e fuzz/Makefile || (cd fuzz && $(abs_srcdir)/configure --quiet $(fuzz_configure))
	$(MAKE) -C fuzz fuzz-programs FUZZ_MAIN= LDFLAGS=-fsanitize=fuzzer
	FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_RUNS='$(FUZZ_RUNS)' $(abs_srcdir)/tests/fuzz/run fuzz $(FUZZ_TARGETS)
distclean-local:
	rm -rf fuzz
.PHONY: fuzz fuzz-programs
