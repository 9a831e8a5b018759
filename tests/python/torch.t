#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.torch: data sets, streams, batches, loaders, samplers, checkpoints, what CUDA is asked
exec "$(dirname "$(readlink -f "$0")")/run" test_torch test_torch_collate test_torch_sets test_torch_order test_torch_iterable test_device
