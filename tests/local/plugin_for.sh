#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# plugin_for.sh - contrib/plugin-for builds the plugin with the headers that it is told, says of which release it is, and refuses those of another one.
set -u
src=$(cd "${srcdir:-.}" && pwd) failed=0
headers=$(echo '#include <slurm/spank.h>' | ${CC:-cc} -E - 2>/dev/null | sed -n 's|^# 1 "\(.*\)/slurm/spank.h".*|\1|p' | head -n 1)
[ -n "$headers" ] || { echo "no headers of Slurm"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/var/tmp}/ddict-plugin-test.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT

# Those of this machine under another number: Slurm 77.04.9
mkdir -p "$dir/include/slurm" && cp "$headers"/slurm/*.h "$dir/include/slurm/" &&
    sed -i 's/^\(#define SLURM_VERSION_NUMBER\) .*/\1 0x4d0409/' "$dir/include/slurm/slurm_version.h" || exit 1
is() { # SENTENCE GOT WANTED
    if [ "$2" = "$3" ]; then echo "ok $1"; else echo "not ok $1: got '$2', wanted '$3'"; failed=1; fi
}
is "headers of another release are refused" "$("$src/contrib/plugin-for" --headers "$dir/include" -o "$dir" 24.11 2>&1)" \
    "plugin-for: the headers in $dir/include are of Slurm 77.04.9, not 24.11"
is "a folder without headers is refused" "$("$src/contrib/plugin-for" --headers "$dir" -o "$dir" 24.11 2>&1)" \
    "plugin-for: $dir has no slurm/spank.h and slurm/slurm_version.h"
is "a release that nobody has is refused" "$(DDICT_IMAGES=$dir "$src/contrib/plugin-for" -o "$dir" 77.05 2>&1)" \
    "plugin-for: no headers of Slurm 77.05 found; give --headers DIR"
is "its headers make a plugin" "$("$src/contrib/plugin-for" --headers "$dir/include" -o "$dir/out" 77.04 --prefix=/opt/x CFLAGS=-O0 2>&1)" \
    "$dir/out/77.04/ddict.so is for Slurm 77.04 (headers of 77.04.9)"
at=$(nm -D "$dir/out/77.04/ddict.so" | awk '$3 == "plugin_version" { print "0x" $1 }')
is "of that release" "$(objdump -s --start-address="$at" --stop-address=$((at + 4)) "$dir/out/77.04/ddict.so" | awk 'END { print $2 }')" 09044d00
is "and of that prefix" "$(grep -c /opt/x/bin/ddict "$dir/out/77.04/ddict.so")" 1
exit $failed
