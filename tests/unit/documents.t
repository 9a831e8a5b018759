#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every option, call and word that exists is in its man page.
src=${srcdir-.} bad=0

# page FILE NAMES... - each name stands in FILE as a word
page() {
    local file=$1 name text
    shift
    text=$(sed 's/\\-/-/g; s/\\f[BIR]//g' "$src/doc/$file") || exit 1
    [ $# -gt 5 ] || { echo "not ok only $# names were found for $file"; bad=1; }
    for name; do
        grep -qE -- "(^|[^a-z_-])$name([^a-z_-]|\$)" <<<"$text" || { echo "not ok $file does not say $name"; bad=1; }
    done
}
# longs PATTERNS... - the long options of getopt_long(); patterns are of the source folder
longs() { (cd "$src" && grep -ohE '\{ ?"[a-z-]+", (required|no)_argument' $*) | sed 's/.*"\(.*\)".*/--\1/' | sort -u; }

page ddict.1 $(longs client/cmd*.[ch] client/bench.c client/load/main.c runtime/launch/options.c | grep -vxE -- '--plugin|--script|--worker|--report|--once|--stage|--after-load|--loaded') $(sed -n 's/^    {"\([a-z]*\)", cmd_.*/\1/p' "$src/client/cmd_main.c")
page ddictd.8 $(longs runtime/manager/options.c)
page libddict.3 $(grep -ohE '^DDICT_API .*' "$src/client/ddict.h" | grep -oE 'ddict_[a-z_]+\(' | tr -d '(' | sort -u)
page libddict-runtime.3 $(grep -ohE '^DDICT_RT_API .*' "$src/runtime/place/ddict_runtime.h" | grep -oE 'ddict_rt_[a-z_]+\(' | tr -d '(' | sort -u) DDICT_PMIX DDICT_TIMEOUT \
    DDICT_RUN_ID DDICT_RUN_RANK DDICT_RUN_SIZE
page ddict-plugin.8 $(grep -ohE '"ddict-[a-z-]+"|= "DDICT_[A-Z_]+"' "$src/plugin/options.c" | tr -d '"= ' | sed 's/^ddict-/--ddict-/' | sort -u)
page ddict.conf.5 $(sed -n 's/^    { "\([a-z_]*\)", take_.*/\1=/p' "$src/runtime/launch/site.c")
for word in $(sed -n 's/^    { "\([a-z_]*\)", take_.*/\1/p' "$src/runtime/launch/site.c"); do
    grep -q "^#$word=" "$src/etc/ddict.conf" || { echo "not ok etc/ddict.conf has no example of $word"; bad=1; }
done
[ $bad = 0 ] && echo "ok the man pages have all options, calls and words"
exit $bad
