#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is installed was linked with read-only relocations, and is compiled with a stack protector and checked copies: above all ddict.so, which root loads. In a build folder.
set -u
command -v readelf >/dev/null || { echo "no readelf"; exit 77; }
set_to() { sed -n "s/^$1 = *//p" Makefile; }
[ -z "$(set_to SAN_CFLAGS)" ] || { echo "built with sanitizers"; exit 77; }
bad=0
judge() { if "${@:2}"; then echo "ok $1"; else echo "not ok $1"; bad=1; fi; }
has() { grep -Eq -- "$2" <<<"$1"; }
flags="$(set_to HARDEN_CFLAGS) $(set_to HARDEN_LDFLAGS) $(set_to CFLAGS) $(set_to CPPFLAGS) $(set_to LDFLAGS)"
[[ " $(set_to CFLAGS) " =~ " -O0 " ]] || judge "copies_are_checked" has "$flags" '_FORTIFY_SOURCE=[23]'
judge "stacks_are_guarded" has "$flags" '-fstack-protector'
judge "relocations_are_read_only_from_the_start" has "$flags" '-z,now'
seen=0
for file in ddictd ddict ddict-load .libs/ddictd .libs/ddict .libs/ddict-load .libs/libddict.so .libs/ddict.so .libs/libddict-runtime.so; do
    [ -e "$file" ] && [ "$(head -c4 "$file" | tail -c3)" = ELF ] || continue
    seen=$((seen + 1))
    judge "$file: RELRO" has "$(readelf -lW "$file")" GNU_RELRO
    judge "$file: bound at the start" has "$(readelf -dW "$file")" 'BIND_NOW|\bNOW\b'
    judge "$file: stack protector" has "$(readelf -W --dyn-syms "$file")" __stack_chk_fail
    case $file in *.so) ;; *) judge "$file: position independent" has "$(readelf -hW "$file")" 'Type: *DYN' ;; esac
done
judge "something_was_looked_at" [ $seen -ge 3 ]
exit $bad
