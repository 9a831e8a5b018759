#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# versions.sh - programs whose libddict is older or newer than the managers: with the same protocol they work, with another one they are told both and what to do.
set -u
if [ -z "${VERSIONS_INSIDE-}" ]; then
    ddict=${DDICT:-$PWD/ddict}
    VERSIONS_INSIDE=1 exec timeout 60 "$ddict" run --local --managers=2 --mem=16M -- bash "$(realpath "$0")"
fi
failed=0
# says NAME CODE REGEX - tests/local/version_NAME ends so
says() {
    local got rc
    got=$("tests/local/version_$1" 2>&1)
    rc=$?
    if [ $rc = "$2" ] && grep -Eqx -- "$3" <<<"$got"; then echo "ok version_$1"; else echo "not ok version_$1: $rc, $got"; failed=1; fi
}
told() { # PROTOCOL LAYOUT of the program, as regular expressions
    echo "the managers are of another version: this program's libddict \(slurm-ddict 9\.9\.9\) speaks protocol $1 and layout $2, ddictd of this node" \
        "protocol [0-9]+ and layout [0-9]+; install the cluster's slurm-ddict where the program runs \(its environment or container image\)"
}
says older 0 "as usual"
says newer 1 "$(told '1[0-9][0-9]' '[0-9]+')"
says layout 1 "$(told '[0-9]+' '1[0-9][0-9]')"
exit $failed
