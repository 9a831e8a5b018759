#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# record.sh - a batch script with three steps of other nodes and ranks. HOW: "by_hand" starts the dictionary itself, else the plugin has.
# usage: record.sh HOW COUNT FOLDER
how=$1 count=$2 tests=$3
if [ "$how" = by_hand ]; then
    words=$(ddict up --managers=4 --mem=128M) || exit 1
    eval "$words"
fi
srun -Q -N3 -n6 python3 "$tests/record.py" load "$count" &&
    srun -Q -N2 -n4 python3 "$tests/record.py" change "$count" &&
    srun -Q -N1 -n2 -r 1 python3 "$tests/record.py" check "$count" &&
    ddict stats --json
