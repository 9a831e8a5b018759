#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.Lock, RLock, Semaphore, Barrier, Event, Counter and JoinableQueue
exec "$(dirname "$(readlink -f "$0")")/run" test_locks test_barriers
