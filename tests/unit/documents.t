#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every call, word and option of the plugin that exists is in its man page; messages, flags, fields, sizes and numbers of PROTOCOL and LAYOUT are those of the source. Options of the commands: manual.t.
src=${srcdir-.} bad=0

# rows WHO - options, variables or words of the option table
rows() { tests/unit/option_list | sed -n "s/^$1 //p" | sort -u; }

# page FILES NAMES... - each name stands in one of FILES (a pattern) as a word
page() {
    local file=$1 name text
    shift
    text=$(sed 's/\\-/-/g; s/\\f[BIR]//g' "$src"/doc/man/$file) || exit 1
    [ $# -gt 5 ] || { echo "not ok only $# names were found for $file"; bad=1; }
    for name; do
        grep -qE -- "(^|[^a-z_-])$name([^a-z_-]|\$)" <<<"$text" || { echo "not ok $file does not say $name"; bad=1; }
    done
}

# library HEADERS MARK PAGES - each function of the headers is named, declared as there and described in one of the pages, and no other function is
names() { sed -n '/^\.SH NAME/{n;s/ \\- .*//;s/[\\,]//g;p}' "$1" | tr ' ' '\n'; }
section() { awk -v want=" $2 " '/^\.SH/ { in_it = index(want, " " $2 " ") } in_it' "$1"; }
library() {
    local prototypes functions page name declared
    prototypes=$(awk -v mark="^$2 " '$0 ~ mark { in_it = 1; sub(mark, "") } in_it { sub(/;.*/, ";"); print } /;/ { in_it = 0 }' $1)
    functions=$(grep -oE '\bddict_[a-z_]+\(' <<<"$prototypes" | tr -d '(' | sort -u)
    [ "$(wc -w <<<"$functions")" -gt 15 ] || { echo "not ok only these functions in $1: $functions"; bad=1; }
    for page in $3; do
        declared=$(section "$page" SYNOPSIS | grep '^\.B' | grep -oE '\bddict_[a-z_]+\(' | tr -d '(' | sort -u)
        for name in $(names "$page" | grep -vxE 'libddict|libddict-runtime|ddict_async'); do
            grep -qx "$name" <<<"$functions" || { echo "not ok $page names $name, which $1 has not"; bad=1; }
            grep -qx "$name" <<<"$declared" || { echo "not ok $page does not declare $name"; bad=1; }
            section "$page" DESCRIPTION | grep -q "\b$name()" || { echo "not ok $page does not describe $name"; bad=1; }
        done
        [ -z "$declared" ] || grep -q '^\.SH ERRORS' "$page" || { echo "not ok $page has no errors"; bad=1; }
        for name in $declared; do
            names "$page" | grep -qx "$name" || { echo "not ok $page declares $name and does not name it"; bad=1; }
        done
    done
    declared=$(for page in $3; do section "$page" SYNOPSIS | sed -nE 's/^\.(B|BI|RB) //p' | tr -d '" \n'; done)
    for name in $(tr -d ' \n' <<<"$prototypes" | tr ';' '\n'); do
        [[ $declared = *"$name"* ]] || { echo "not ok no page declares $name;"; bad=1; }
    done
    comm -3 <(echo "$functions") <(for page in $3; do names "$page"; done | grep -vxE 'libddict|libddict-runtime|ddict_async' | sort) | grep . && { echo "not ok these functions are not in one page"; bad=1; }
}
man=$src/doc/man headers=$(find "$src/client" "$src/runtime" -name 'ddict*.h')
library "$src/client/ddict.h $src/client/ddict_values.h" DDICT_API "$(echo "$man"/libddict.3 "$man"/ddict_*.3)"
library "$(grep '/ddict_runtime\.h$' <<<"$headers")" DDICT_RT_API "$man/libddict-runtime.3"
page libddict.3 $(grep -ohE '^ +DDICT_E[A-Z]+ = ' $headers | tr -d ' =')
page ddict_stats.3 $(sed -n '/^struct ddict_manager_stats {/,/^}/p' $headers | sed 's|/\*.*||;s|\[.*\]||' | grep -E '^ +(struct [a-z_]+|[a-z0-9_]+) [a-z].*;' |
    sed -E 's/^ +(struct )?[a-z0-9_]+ //' | tr -d ' ;' | tr ',' ' ')
page libddict-runtime.3 DDICT_PMIX DDICT_TIMEOUT DDICT_TOPOLOGY DDICT_RUN_ID DDICT_RUN_RANK DDICT_RUN_SIZE
page ddict-plugin.8 $(rows srun)
page 'ddict*.1' $(rows variables)
page ddict.conf.5 $(rows site | sed 's/$/=/')
for word in $(rows site); do
    grep -q "^#$word=" "$src/etc/ddict.conf" || { echo "not ok etc/ddict.conf has no example of $word"; bad=1; }
done

# recipe FILE - what a recipe of an image begins with, installs and runs; both recipes make the same image
recipe() { grep -oE '[a-z0-9.+-]+-dev|build-essential|autoconf|automake|libtool|pkg-config|xz-utils|pytorch/[^ ]+|contrib/containers/[^ ]+|slurm-ddict\.tar\.xz|ddict (load|--)[a-z -]+|import [a-z, ]+' "$1" | sed 's, *$,,' | sort -u; }
[ "$(recipe "$src/contrib/containers/train.def" | wc -l)" -gt 15 ] || { echo "not ok train.def: $(recipe "$src/contrib/containers/train.def" | xargs)"; bad=1; }
diff <(recipe "$src/contrib/containers/train.def") <(recipe "$src/contrib/containers/Dockerfile") || { echo "not ok train.def and Dockerfile differ"; bad=1; }

# messages HEADER ENUM SECTIONS - the entries "NAME (NUMBER)" of these sections of PROTOCOL are the constants of the enum; CTL_ is left out there
messages() {
    local code told
    code=$(sed -nE "/^enum $2 \\{/,/^\\}/s/^ +[A-Z]+_([A-Z_]+)( = 1)?,?( .*)?\$/\\1/p" "$src/$1" | grep -v '^TYPE_N$' |
        sed 's/^CTL_//' | awk '{ print $1 " (" NR ")" }' | sort)
    told=$(awk -v want=" $3 " '/^## / { in_it = index(want, " " int($2) " ") } in_it' "$src/doc/PROTOCOL.md" |
        sed -nE 's/^(#### |\| )([A-Z_]+ \([0-9]+\))( \|.*|)$/\2/p' | sort -u)
    [ "$(wc -l <<<"$code")" -gt 10 ] || { echo "not ok only these messages in $1: $code"; bad=1; }
    diff <(echo "$code") <(echo "$told") && return
    echo "not ok $1 (<) and doc/PROTOCOL.md, $3 (>) have other messages"
    bad=1
}

# fields FILE - rows "| field | offset | bytes |" behind "`struct NAME`", as layout_list prints them
fields() {
    awk -F ' *\\| *' '!/^\|/ && /`struct [a-z_]+`/ { match($0, /`struct [a-z_]+`/); name = substr($0, RSTART + 8, RLENGTH - 9) }
        /^\| field \| offset \| bytes/ { in_it = 1; next } !/^\|/ { in_it = 0 } in_it && !/^\|-/ { print name, $2, $3, $4 }' "$1"
}
code=$(tests/unit/layout_list) || { echo "not ok layout_list lacks a field"; bad=1; }
diff <(awk 'NF == 4' <<<"$code" | sort) <(fields "$src/doc/LAYOUT.md" | cat - <(fields "$src/doc/PROTOCOL.md") | sort) ||
    { echo "not ok the source (<) and LAYOUT or PROTOCOL (>) have other fields"; bad=1; }

# told FILE - its text on one line, 65,536 as 65536, and 2,097,152 as 2097152
told() { tr '\n' ' ' <"$1" | sed -E 's/([0-9]),([0-9]{3})/\1\2/g; s/([0-9]),([0-9]{3})/\1\2/g; s/  +/ /g'; }
layout=$(told "$src/doc/LAYOUT.md") protocol=$(told "$src/doc/PROTOCOL.md")

# "`struct NAME` (BYTES bytes", as layout_list prints them
diff <(awk 'NF == 2' <<<"$code" | sort) <(grep -oE '`struct [a-z_]+` \([0-9]+ bytes' <<<"$layout $protocol" | sed -E 's/^`struct ([a-z_]+)` \(([0-9]+) bytes/\1 \2/' | sort -u) ||
    { echo "not ok structs of the source (<) and of LAYOUT or PROTOCOL (>) have other sizes"; bad=1; }

# constants HEADER ENUM PREFIX FILE COLUMNS - the rows "| NAME | NUMBER |" of the table with these columns are the constants of the enum, all with a number
constants() {
    local code told
    code=$(sed -n "/^enum $2 {/,/^}/p" "$src/$1" | tr '\n' ' ' | sed -E 's#/\*([^*]|\*[^/])*\*/##g; s/.*\{//; s/\}.*//' |
        tr ',' '\n' | sed -E "s/^ *$3//; s/ *= */ /; s/ *\$//" | grep . | sort)
    told=$(awk -F ' *\\| *' -v want="| $5 |" 'index($0, want) == 1 { in_it = 1; next } !/^\|/ { in_it = 0 } in_it && !/^\|-/ { print $2, $3 }' "$src/doc/$4" | sort)
    [ "$(wc -l <<<"$code")" -gt 2 ] || { echo "not ok only these constants of $2 in $1: $code"; bad=1; }
    diff <(echo "$code") <(echo "$told") && return
    echo "not ok $1 (<) and doc/$4 (>) have other numbers of $2"
    bad=1
}
constants runtime/wire/msg.h msg_flag MSGF_ PROTOCOL.md 'flag | value'
constants runtime/store/layout.h page_kind PAGE_ LAYOUT.md 'kind | number'
constants runtime/store/layout.h freeze_state FREEZE_ LAYOUT.md 'state | number'

# number FILE NAME TEXT SENTENCE [UNIT] - TEXT has SENTENCE, with the value of the constant, in units, for N
number() {
    local value
    value=$(sed -nE "s/^#define $2 +(\([^)]*\)|[0-9]+u?)( .*)?\$/\1/p" "$src/$1" | tr -d u)
    [ -n "$value" ] || { echo "not ok $1 has no constant $2"; bad=1; return; }
    grep -qF -- "${4//N/$((value / ${5-1}))}" <<<"$3" && return
    echo "not ok $2 of $1 is $value, but no document says \"$4\" of that"
    bad=1
}
number runtime/base/versions.h LAYOUT_VERSION "$layout" 'Layout version N.'
number runtime/base/versions.h LAYOUT_VERSION "$layout" '| layout_version | 8 | 4 | N |'
number runtime/base/versions.h PROTOCOL_VERSION "$protocol" 'Protocol version N.'
number runtime/base/stats.h STATS_VERSION "$protocol" 'bytes in version N)'
number runtime/base/defaults.h DD_LEASE_CHUNKS "$layout" 'of a client, N chunks'
number runtime/manager/lane_clients.c FIGURE_LOOKS "$protocol" 'With more than N clients'
number runtime/manager/ledger.h LEDGER_ENTRIES "$protocol" 'the ledger has N.'
number runtime/manager/ledger.h LEDGER_KEY "$protocol" 'A key of more than N bytes goes on'
number runtime/manager/prefetch.c PREFETCH_AHEAD "$protocol" 'at most N at a time'
number runtime/manager/prefetch.c PREFETCH_QUEUE "$protocol" 'at most N MiB of waiting keys' 1048576
number runtime/manager/subscriptions.c SUBSCRIPTION_BYTES "$protocol" 'events and N MiB of keys of each prefix' 1048576
number runtime/manager/subscriptions.c SUBSCRIPTION_EVENTS "$protocol" 'keeps the last N events'
number runtime/supervisor/freeze.c ASKS_MAX "$protocol" '1 where N ASKs wait already'
number runtime/wire/fabric/fabric_types.h FRAME_BYTES "$protocol" 'bytes of the stream, at most N.'
number runtime/wire/fabric/fabric_types.h FRAME_WINDOW "$protocol" 'At most N may be sent and not read'
number runtime/wire/lane.h LANE_WINDOWS "$protocol" 'at most N for each lane'
number runtime/wire/msg.h MSG_KEY_MAX "$protocol" 'the key (1 to N bytes)'
number runtime/wire/seal.h SEAL_BYTES "$protocol" 'u32 len (1 .. N), len bytes'
messages runtime/wire/msg.h msg_type '1 6'
messages runtime/wire/attach.h attach_type 4
messages runtime/manager/supmsg.h sup_type 11
diff <("$src/contrib/tested" --sums) <(sed -n '/^| system | tests |/,/^$/p' "$src/README.md" | grep '^|') ||
    { echo "not ok README.md does not have what contrib/tested --sums says"; bad=1; }
[ $bad = 0 ] && echo "ok the documents have all options, calls, words and messages"
exit $bad
