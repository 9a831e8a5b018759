#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# hostile.sh FILE BEFORE SRUN-WORDS... - on the submit host: for each line of FILE, srun with that one variable, without and
# with a dictionary. Where the plain one works, the other must: both tasks share the dictionary, within 30 seconds. BEFORE
# is nothing, or a salloc for each of them, as a step that srun lost would hold back all that follow in its allocation.
file=$1
read -ra before <<<"$2"
shift 2
here=$(dirname "$(readlink -f "$0")")
ddict=$(command -v ddict) || exit 1
tested=0 skipped=''
while read -r line; do
    case $line in '' | '#'*) continue ;; esac
    words=() variable=${line%% | *}
    [ "$variable" = "$line" ] || read -ra words <<<"${line#* | }"
    if output=$("${before[@]}" env "$variable" timeout -k 5 30 srun "$@" "${words[@]}" --ddict-managers=2 \
        --ddict-mem=32M /bin/sh "$here/both.sh" "$ddict" 2>&1 </dev/null); then
        tested=$((tested + 1))
        echo "ok hostile_$variable"
        continue
    fi
    rc=$?
    if ! "${before[@]}" env "$variable" timeout -k 5 10 srun "$@" "${words[@]}" /bin/true >/dev/null 2>&1 </dev/null; then
        skipped+=" $line"
    else
        tested=$((tested + 1))
        echo "not ok hostile_$variable (exit code $rc)"
        echo "$output" | tail -n 8 | cut -c1-300 | sed 's/^/# /'
    fi
done <"$file"
echo "$tested tested; srun itself fails with:$skipped"
