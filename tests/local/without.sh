#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# without.sh - where there is no membarrier, leases have fences of their own: managers and clients without it, and clients alone.
set -u
without=$PWD/tests/local/without_barriers ddict=${DDICT:-$PWD/ddict} failed=0
"$without" true
[ $? != 77 ] || exit 77
# ok NAME CMD...
ok() {
    local name=$1 out
    shift
    if out=$(timeout 120 "$@" 2>&1); then echo "ok $name"; else echo "not ok $name"; tail -n 20 <<<"$out"; failed=1; fi
}
for program in client_same client_fork client_many; do
    ok "${program}_without_membarriers" "$without" "tests/local/$program"
done
ok "only_the_clients_without_membarriers" "$ddict" run --local --managers=2 --mem=64M -- "$without" "$ddict" bench --sizes 1K --clients 1,2 --seconds 0.05 --reps 1 --set-size 4M --json
exit $failed
