#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# torch's DataLoader while another process overwrites
exec "$(dirname "$(readlink -f "$0")")/run" test_loader
