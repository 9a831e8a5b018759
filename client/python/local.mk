# SPDX-License-Identifier: Apache-2.0
python_modules = client/python/ddict/__init__.py client/python/ddict/__init__.pyi client/python/ddict/_ddict.pyi \
  client/python/ddict/_torch.py client/python/ddict/py.typed
python_sources = client/python/src/args.c client/python/src/errors.c client/python/src/handle.c client/python/src/iter.c \
  client/python/src/key.c client/python/src/load.c client/python/src/lookup.c client/python/src/many.c client/python/src/mapping.c \
  client/python/src/memory.c client/python/src/module.c client/python/src/pyddict.h client/python/src/stats.c \
  client/python/src/value.c client/python/src/view.c
EXTRA_DIST += $(python_modules) $(python_sources) client/python/FORMAT client/python/LICENSE client/python/MANIFEST.in \
  client/python/README.md client/python/pyproject.toml client/python/setup.py
