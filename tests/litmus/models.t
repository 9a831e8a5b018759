#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The models of the shared memory (rules of the processor: weak.inc) and of replicas hold, and each of their mutants fails. Run 0 of a model is the protocol as it is.
# A model with LARGE is run with MODELS=all only (contrib/check --full): some 15 s and 800 MiB for run 0.
cd "${srcdir-.}/tests/litmus" || exit 1
command -v spin >/dev/null || { echo "skip: spin is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
bad=0

# run MODEL NUMBER - the result of one run in $dir/out: holds or fails; else something is wrong with the model
run() {
    (cd "$dir" && CHOICE=$2 timeout "$limit" "./$1" "${flags[@]}" >out 2>&1)
    if grep -q '^pan:1: assertion violated' "$dir/out"; then
        echo fails
    elif grep -q 'errors: 0$' "$dir/out" && ! grep -qE 'Search not completed|too small' "$dir/out"; then
        echo holds
    else
        cat "$dir/out" >&2
        echo "does not end"
    fi
}

# expect MODEL NUMBER NAME WHAT
expect() {
    local what
    what=$(run "$1" "$2")
    if [ "$what" = "$4" ]; then
        echo "ok $1 $3 $4"
    else
        echo "not ok $1 $3: $what"
        bad=1
    fi
}

# numbers MODEL KIND - "NUMBER NAME" of its variants or mutants
numbers() { sed -nE "s/^#define +([A-Z0-9_]+) +$2\(([0-9]+)\).*/\2 \1/p" "$1.pml"; }

for file in *.pml; do
    model=${file%.pml}
    optimise=-O0 flags=(-m100000 -w20) limit=60
    if grep -q '^#define LARGE$' "$file"; then
        [ "${MODELS-}" = all ] || { echo "skip: $model is large: MODELS=all"; continue; }
        optimise=-O2 flags=(-m400000 -w24) limit=300
    fi
    cp weak.inc "$file" "$dir" && chmod u+w "$dir/$file" || exit 1
    if ! (cd "$dir" && spin -a "$file" && ${CC:-gcc} $optimise -w -DSAFETY -o "$model" pan.c) >"$dir/log" 2>&1; then
        cat "$dir/log"
        echo "not ok $model is no model"
        bad=1
        continue
    fi
    [ "$( (numbers "$model" VARIANT; numbers "$model" MUTANT) | cut -d' ' -f1 | sort -n | uniq -d)" = '' ] || { echo "not ok $model has a number twice"; bad=1; }
    expect "$model" 0 'as it is' holds
    while read -r n name; do expect "$model" "$n" "$name" holds; done < <(numbers "$model" VARIANT)
    mutants=$(numbers "$model" MUTANT)
    [ -n "$mutants" ] || { echo "not ok $model has no mutant"; bad=1; }
    while read -r n name; do expect "$model" "$n" "$name" fails; done <<<"$mutants"
done
exit $bad
