#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No file includes one of a layer above its own, and the check of that can fail.
src=${srcdir-.}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

"$src/contrib/layers" "$src" || { echo "not ok no_layer_sees_one_above"; exit 1; }
echo "ok no_layer_sees_one_above"

# mutant FILE INCLUDE - the sources with one include too many must be refused, with its file and line
mutant() {
    rm -rf "$dir/src" && mkdir "$dir/src" && cp -r "$src/runtime" "$src/client" "$src/plugin" "$dir/src/" || exit 1
    chmod -R u+w "$dir/src"
    sed -i "1a #include $2" "$dir/src/$1" || exit 1
    if "$src/contrib/layers" "$dir/src" >"$dir/out" || ! grep -q "^$1:2: " "$dir/out"; then
        cat "$dir/out"
        echo "not ok $1 may include $2"
        exit 1
    fi
    echo "ok $1 must not include $2"
}
mutant runtime/base/clock.c '<store/store.h>'
mutant runtime/store/heap.c '<wire/lane.h>'
mutant runtime/manager/lanes.c '<supervisor/supervisor.h>'
mutant runtime/wire/msg.c '<ddict.h>'
mutant client/lib/get.c '<cmd/cmd.h>'
