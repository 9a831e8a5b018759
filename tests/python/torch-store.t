#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.torch.Store, init_method="ddict://", and torchrun's backend
exec "$(dirname "$(readlink -f "$0")")/run" test_torch_store
