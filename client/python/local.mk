# SPDX-License-Identifier: Apache-2.0
# The binding for the Python that configure found. Others build it with pip, from the same sources: README.md.
python_modules = client/python/ddict/__init__.py client/python/ddict/__init__.pyi \
  client/python/ddict/_atomic.py client/python/ddict/_cloud.py client/python/ddict/_ddict.pyi \
  client/python/ddict/_copies.py client/python/ddict/_ends.py client/python/ddict/_events.py \
  client/python/ddict/_future.py \
  client/python/ddict/_manager.py client/python/ddict/_map.py client/python/ddict/_place.py \
  client/python/ddict/_publish.py \
  client/python/ddict/_queue.py client/python/ddict/results.py client/python/ddict/_collect.py \
  client/python/ddict/_persist.py \
  client/python/ddict/_s3.py client/python/ddict/_torch.py client/python/ddict/runtime.py \
  client/python/ddict/sets.py client/python/ddict/_up.py client/python/ddict/pytest_plugin.py \
  client/python/ddict/_runtime.pyi client/python/ddict/py.typed
python_sources = client/python/src/args.c client/python/src/array.c client/python/src/atomic.c \
  client/python/src/errors.c \
  client/python/src/freeze.c client/python/src/handle.c client/python/src/iter.c \
  client/python/src/requests.c client/python/src/place.c client/python/src/publish.c client/python/src/key.c \
  client/python/src/load.c client/python/src/lookup.c client/python/src/many.c \
  client/python/src/mapping.c client/python/src/memory.c client/python/src/module.c \
  client/python/src/persist.c \
  client/python/src/pyddict.h client/python/src/queue.c client/python/src/stats.c \
  client/python/src/sub.c client/python/src/up.c client/python/src/value.c client/python/src/view.c
python_torch = client/python/ddict/torch/__init__.py client/python/ddict/torch/_batch.py \
  client/python/ddict/torch/_fill.py client/python/ddict/torch/_print.py \
  client/python/ddict/torch/_sets.py client/python/ddict/torch/checkpoint.py \
  client/python/ddict/torch/dataset.py client/python/ddict/torch/device.py \
  client/python/ddict/torch/images.py client/python/ddict/torch/iterable.py \
  client/python/ddict/torch/loader.py client/python/ddict/torch/samplers.py
python_torch += client/python/ddict/torch/store.py client/python/ddict/torch/rendezvous.py \
  client/python/ddict/torch/elastic.py
python_sources += client/python/src/gather.c client/python/src/holder.c client/python/src/window.c
python_modules += client/python/ddict/_barrier.py client/python/ddict/_conditions.py \
  client/python/ddict/_holders.py client/python/ddict/_locks.py
python_modules += client/python/ddict/_files.py client/python/ddict/fsspec.py \
  client/python/ddict/zarr.py client/python/ddict/_folder.py
EXTRA_DIST += client/python/entry_points.txt
# one folder, one list: automake installs a list into one folder
python_dragon = client/python/ddict/dragon/__init__.py client/python/ddict/dragon/_child.py \
  client/python/ddict/dragon/_home.py client/python/ddict/dragon/_place.py \
  client/python/ddict/dragon/mp.py client/python/ddict/dragon/__init__.pyi
python_dragon_data = client/python/ddict/dragon/data/__init__.py
python_dragon_dataddict = client/python/ddict/dragon/data/ddict/__init__.py \
  client/python/ddict/dragon/data/ddict/batch.py client/python/ddict/dragon/data/ddict/ddict.py \
  client/python/ddict/dragon/data/ddict/directed.py client/python/ddict/dragon/data/ddict/ddict.pyi \
  client/python/ddict/dragon/data/ddict/errors.py client/python/ddict/dragon/data/ddict/filter.py \
  client/python/ddict/dragon/data/ddict/keys.py client/python/ddict/dragon/data/ddict/making.py \
  client/python/ddict/dragon/data/ddict/near.py \
  client/python/ddict/dragon/data/ddict/persister.py \
  client/python/ddict/dragon/data/ddict/pickler.py client/python/ddict/dragon/data/ddict/stats.py \
  client/python/ddict/dragon/data/ddict/views.py client/python/ddict/dragon/data/ddict/window.py
python_dragon_ai = client/python/ddict/dragon/ai/__init__.py \
  client/python/ddict/dragon/ai/collective_group.py client/python/ddict/dragon/ai/collective_group.pyi
python_dragon_aitorch = client/python/ddict/dragon/ai/torch/__init__.py \
  client/python/ddict/dragon/ai/torch/dictdataset.py client/python/ddict/dragon/ai/torch/dictdataset.pyi
python_dragon_globalservices = client/python/ddict/dragon/globalservices/__init__.py \
  client/python/ddict/dragon/globalservices/node.py
python_dragon_native = client/python/ddict/dragon/native/__init__.py \
  client/python/ddict/dragon/native/barrier.py client/python/ddict/dragon/native/event.py \
  client/python/ddict/dragon/native/lock.py client/python/ddict/dragon/native/machine.py \
  client/python/ddict/dragon/native/process.py client/python/ddict/dragon/native/process_group.py \
  client/python/ddict/dragon/native/process.pyi client/python/ddict/dragon/native/process_group.pyi \
  client/python/ddict/dragon/native/queue.py client/python/ddict/dragon/native/semaphore.py \
  client/python/ddict/dragon/native/condition.py
python_dragon_infrastructure = client/python/ddict/dragon/infrastructure/__init__.py \
  client/python/ddict/dragon/infrastructure/parameters.py \
  client/python/ddict/dragon/infrastructure/policy.py
python_dragon_all = $(python_dragon) $(python_dragon_data) $(python_dragon_dataddict) \
  $(python_dragon_ai) $(python_dragon_native) $(python_dragon_infrastructure) \
  $(python_dragon_aitorch) $(python_dragon_globalservices)
EXTRA_DIST += $(python_dragon_all)
EXTRA_DIST += $(python_modules) $(python_torch) client/python/LICENSE client/python/MANIFEST.in \
  client/python/README.md client/python/pyproject.toml client/python/setup.py

if BUILD_PYTHON
pyddict_LTLIBRARIES = client/python/_ddict.la
pyddict_DATA = $(python_modules)
pyddicttorchdir = $(pyddictdir)/torch
pyddicttorch_DATA = $(python_torch)
pyddictdragondir = $(pyddictdir)/dragon
pyddictdragon_DATA = $(python_dragon)
pyddictdragondatadir = $(pyddictdir)/dragon/data
pyddictdragondata_DATA = $(python_dragon_data)
pyddictdragondataddictdir = $(pyddictdir)/dragon/data/ddict
pyddictdragondataddict_DATA = $(python_dragon_dataddict)
pyddictdragonaidir = $(pyddictdir)/dragon/ai
pyddictdragonai_DATA = $(python_dragon_ai)
pyddictdragonaitorchdir = $(pyddictdir)/dragon/ai/torch
pyddictdragonaitorch_DATA = $(python_dragon_aitorch)
pyddictdragonglobalservicesdir = $(pyddictdir)/dragon/globalservices
pyddictdragonglobalservices_DATA = $(python_dragon_globalservices)
pyddictdragonnativedir = $(pyddictdir)/dragon/native
pyddictdragonnative_DATA = $(python_dragon_native)
pyddictdragoninfrastructuredir = $(pyddictdir)/dragon/infrastructure
pyddictdragoninfrastructure_DATA = $(python_dragon_infrastructure)
client_python__ddict_la_SOURCES = $(python_sources)
client_python__ddict_la_CPPFLAGS = -I$(top_srcdir)/client -I$(top_srcdir)/runtime $(PYTHON_CPPFLAGS)
client_python__ddict_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
  -export-symbols-regex '^PyInit_'
client_python__ddict_la_LIBADD = libddict.la
pyddict_LTLIBRARIES += client/python/_runtime.la
client_python__runtime_la_SOURCES = client/python/runtime/runtime.c
client_python__runtime_la_CPPFLAGS = -I$(top_srcdir)/client -I$(top_srcdir)/runtime \
  -I$(top_srcdir)/client/rt $(PYTHON_CPPFLAGS)
client_python__runtime_la_LDFLAGS = $(client_python__ddict_la_LDFLAGS)
client_python__runtime_la_LIBADD = libddict-runtime.la
# libtool links it again when it is installed, against the installed libddict. (By a variable: automake would drop its own rule.)
python_install = install-pyddictLTLIBRARIES
$(python_install): install-libLTLIBRARIES
# Users cannot write into a folder of root's, so without these files each process of a job would compile the modules again.
python_compile = cd / && umask 022 && '$(PYTHON)' -m compileall -q -f -d '$(pyddictdir)'
after_install += install-python-compiled install-python-metadata
after_uninstall += uninstall-python-compiled uninstall-python-metadata
install-python-compiled:
	d=$$(cd '$(DESTDIR)$(pyddictdir)' && pwd) && $(python_compile) "$$d"
uninstall-python-compiled:
	rm -rf '$(DESTDIR)$(pyddictdir)/__pycache__' '$(DESTDIR)$(pyddicttorchdir)/__pycache__'
	! [ -d '$(DESTDIR)$(pyddictdir)/dragon' ] || find '$(DESTDIR)$(pyddictdir)/dragon' -name __pycache__ -exec rm -rf {} +
# What pip writes of a package, so that importlib.metadata and pip list know it, and pytest, fsspec and torchrun find what is theirs. Without a RECORD pip removes nothing of it.
python_metadata = $(DESTDIR)$(pyddictdir)/../slurm_ddict-$(PACKAGE_VERSION).dist-info
install-python-metadata:
	$(MKDIR_P) "$(python_metadata)"
	printf '%s\n' 'Metadata-Version: 2.1' 'Name: slurm-ddict' 'Version: $(PACKAGE_VERSION)' \
	  'Summary: The distributed in-memory dictionary of a Slurm job' 'License: Apache-2.0' >"$(python_metadata)/METADATA"
	$(INSTALL_DATA) '$(srcdir)/client/python/entry_points.txt' "$(python_metadata)/entry_points.txt"
	echo make >"$(python_metadata)/INSTALLER"
uninstall-python-metadata:
	rm -rf "$(python_metadata)"
else
EXTRA_DIST += $(python_sources) client/python/runtime/runtime.c
endif
