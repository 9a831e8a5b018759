#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# both.sh DDICT - two tasks each put one key and read the other's. Needs nothing from the environment but what Slurm sets.
me=$SLURM_PROCID
"$1" put "both$me" "$me" || exit 1
i=0
until [ "$("$1" get "both$((1 - me))" 2>/dev/null)" = $((1 - me)) ]; do
    i=$((i + 1))
    [ $i -lt 100 ] || { echo "task $me: the other task's key never came" >&2; exit 1; }
    sleep 0.1
done
