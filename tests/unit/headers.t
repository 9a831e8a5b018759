#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each header that is installed compiles alone, with only what is installed beside it, in C and in C++, or in C++17 if it is one
# of C++, by each compiler that is there. In a build folder.
set -u
bad=0
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT || exit 1
MAKEFLAGS='' make -s install-includeHEADERS DESTDIR="$folder" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
include=$(dirname "$(find "$folder" -name ddict.h)")
[ "$(find "$include" -name '*.h' | wc -l)" -ge 4 ] || { echo "not ok fewer than 4 headers are installed"; bad=1; }

alone() { # HEADER LANGUAGE COMPILER...
    echo "#include <$1>" | "${@:3}" -x "$2" -I"$include" -Wall -Wextra -Werror -fsyntax-only - && echo "ok $1 alone ($2)" || { echo "not ok $1 alone ($2)"; bad=1; }
}
for header in "$include"/*.h; do
    alone "${header##*/}" c $(sed -n "s/^CC = *//p" Makefile) -std=c99 -pedantic
    ! command -v c++ >/dev/null || alone "${header##*/}" c++ c++ -std=c++11
done
[ -e "$include/ddict.hpp" ] || { echo "not ok there is no ddict.hpp"; bad=1; }
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || { echo "skip headers of C++: no $compiler"; continue; }
    for header in "$include"/*.hpp; do
        alone "${header##*/}" c++ $compiler -std=c++17 -pedantic
    done
done
exit $bad
