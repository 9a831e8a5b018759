#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# keys, values, views and the mapping protocol on one node
exec "$(dirname "$(readlink -f "$0")")/run" test_keys test_values test_mapping test_views
