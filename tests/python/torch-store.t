#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.torch.Store, and init_method="ddict://"
exec "$(dirname "$(readlink -f "$0")")/run" test_torch_store
