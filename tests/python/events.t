#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# subscriptions and prefixes
exec "$(dirname "$(readlink -f "$0")")/run" test_events
