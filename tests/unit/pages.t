#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unit tests of what maps, advises and gives back memory, with pages of 16 and of 64 KiB (big_pages.c).
[ -z "$(sed -n 's/^SAN_CFLAGS = *//p' Makefile)" ] || { echo "built with sanitizers, which want to be loaded first"; exit 77; }
lib=$PWD/tests/unit/.libs/libbig_pages.so bad=0
[ -e "$lib" ] || { echo "$lib is missing: run me by make check"; exit 1; }
case $(uname -m) in x86_64) ;; *) echo "the pages of x86-64 are needed"; exit 77 ;; esac
# store_compact knows what to expect of them. store_heap, store_rebuild and store_populate leave free stretches of 64 KiB, and expect that some of their memory is given back.
for run in 16384:store_heap 16384:store_rebuild 16384:store_populate {16384,65536}:{store_compact,store_store,store_lease,store_reader,wire_lane}; do
    size=${run%:*} name=${run#*:}
    if out=$(DDICT_TEST_PAGE=$size LD_PRELOAD=$lib "tests/unit/$name" 2>&1); then
        echo "ok $name, pages of $size bytes"
    else
        echo "$out"
        echo "not ok $name, pages of $size bytes"
        bad=1
    fi
done
exit $bad
