# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/python/atomic.t tests/python/test_atomic.py
EXTRA_DIST += tests/python/harness.py tests/python/run tests/python/run.py \
  tests/python/test_command.py tests/python/test_errors.py tests/python/test_install.py \
  tests/python/test_keys.py tests/python/test_leaks.py tests/python/test_loader.py \
  tests/python/test_mapping.py tests/python/test_processes.py tests/python/test_refill.py \
  tests/python/test_remote.py \
  tests/python/test_values.py tests/python/test_views.py tests/python/command.t \
  tests/python/errors.t tests/python/install.t tests/python/loader.t tests/python/mapping.t \
  tests/python/processes.t tests/python/remote.t tests/python/results.t \
  tests/python/test_results.py tests/python/events.t tests/python/test_events.py \
  tests/python/queue.t tests/python/test_queue.py tests/python/turns.t tests/python/test_turns.py \
  tests/python/future.t tests/python/test_future.py tests/python/place.t \
  tests/python/test_place.py tests/python/gpu.t tests/python/test_gpu.py tests/python/runtime.t \
  tests/python/test_runtime.py tests/bench/dna_load.py
EXTRA_DIST += tests/python/torch.t tests/python/test_torch.py tests/python/test_torch_collate.py \
  tests/python/test_torch_sets.py tests/python/test_torch_order.py \
  tests/python/test_torch_iterable.py tests/python/test_device.py tests/bench/torch_epoch.py \
  tests/bench/checkpoint.py tests/python/with-torch

EXTRA_DIST += tests/python/near.t tests/python/test_near.py
EXTRA_DIST += tests/python/window.t tests/python/test_window.py tests/python/copies.t \
  tests/python/test_copies.py
EXTRA_DIST += tests/python/sets.t tests/python/test_sets.py
EXTRA_DIST += tests/python/locks.t tests/python/test_locks.py tests/python/test_barriers.py \
  tests/python/holders.py
EXTRA_DIST += tests/python/freeze.t tests/python/test_freeze.py
EXTRA_DIST += tests/python/publish.t tests/python/test_publish.py
EXTRA_DIST += tests/python/cloud.t tests/python/test_cloud.py
EXTRA_DIST += tests/python/languages.t tests/python/test_languages.py tests/python/languages.c \
  tests/python/languages.cpp tests/python/languages.f90
EXTRA_DIST += tests/python/persist.t tests/python/test_persist.py tests/python/window_states.py tests/python/window_advance.py
EXTRA_DIST += tests/python/readme.t tests/python/test_readme.py
EXTRA_DIST += tests/python/up.t tests/python/test_up.py tests/python/test_up_hosts.py
EXTRA_DIST += tests/python/dragon.t tests/python/test_dragon.py tests/python/test_dragon_processes.py \
  tests/python/test_dragon_torch.py
EXTRA_DIST += tests/python/dragon-more.t tests/python/test_dragon_window.py tests/python/test_dragon_persist.py \
  tests/python/test_dragon_copies.py tests/python/test_dragon_publish.py \
  tests/python/test_dragon_stubs.py
EXTRA_DIST += tests/python/fsspec.t tests/python/test_fsspec.py tests/python/fsspec_suite.py \
  tests/python/zarr.t tests/python/test_zarr.py tests/python/zarr_suite.py tests/bench/zarr_read.py
EXTRA_DIST += tests/python/torch-store.t tests/python/test_torch_store.py tests/bench/torch_store.py
if BUILD_PYTHON
TESTS += tests/python/dragon.t tests/python/dragon-more.t tests/python/persist.t tests/python/locks.t \
  tests/python/atomic.t tests/python/near.t tests/python/freeze.t tests/python/publish.t \
  tests/python/readme.t tests/python/up.t tests/python/languages.t tests/python/cloud.t \
  tests/python/window.t tests/python/copies.t
TESTS += tests/python/mapping.t tests/python/gpu.t tests/python/queue.t tests/python/turns.t \
  tests/python/events.t tests/python/results.t tests/python/future.t tests/python/place.t
TESTS += tests/python/fsspec.t tests/python/zarr.t
endif
EXTRA_DIST += tests/python/dragon-surface.t tests/python/test_dragon_surface.py
if BUILD_PYTHON
TESTS += tests/python/dragon-surface.t
endif
EXTRA_DIST += tests/python/test_zarr_folder.py
