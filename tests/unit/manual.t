#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Manual pages and --help say the same, and what the code does. In a build folder: the programs are run.
# --help has lines of 80 columns at most; its options are those of the page's section OPTIONS and those of the code.
# A page has all its sections, no fault that mandoc or man finds, and each name under which it is to be found.
set -u
src=${srcdir-.} man=$src/doc/man bad=0
fail() { echo "not ok $*"; bad=1; }

# Words that are options: "-x" and "--long".
words() { tr ' ,=[|' '\n' | grep -xE -- '-[a-zA-Z]|--[a-z][a-z-]*' | sort -u; }
# What stands at the head of help's lines, up to two blanks.
help_options() { sed -nE '/^(  |      )-/{s/^ +//;s/  .*//;p}' <<<"$1" | words; }
# The tags of section OPTIONS.
page_options() {
    awk '/^\.SH/ { in_it = /OPTIONS/ } tag && in_it { print } { tag = /^\.TP/ }' "$1" |
        sed -E 's/\\f[BIRP]//g; s/^\.(B|I|BR|BI|RB|IB) //; s/"//g; s/\\-/-/g' | words
}
long() { grep -- '^--' <<<"$1"; }
# getopt_long() takes "--=" for the beginning of all options, and names them.
code_options() { "$@" --= 2>&1 | sed -n "s/.*possibilities: //p" | tr -d "'" | words; }
table_options() { tests/unit/option_list | sed -n "s/^$1 //p" | sort -u; }
without() { grep -vxE -- "$1" || true; }

# same WHAT ONE OTHER - two lists; names what only one of them has
same() {
    [ "$2" = "$3" ] && [ -n "$2" ] && return
    fail "$1: first alone: $(comm -23 <(echo "$2") <(echo "$3") | tr '\n' ' '); second alone: $(comm -13 <(echo "$2") <(echo "$3") | tr '\n' ' ')"
}
width() { ! grep -nE '^.{81,}' <<<"$2" || fail "$1 --help has lines of more than 80 columns"; }

# Options that a program has for itself, not for users.
inner='--worker|--at|--pass|--turn|--report|--once|--stage|--after-load|--loaded|--until-end|--restoring'
verbs=$(./ddict --help | sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p')
[ "$(wc -w <<<"$verbs")" -gt 15 ] || fail "ddict --help has only these verbs: $verbs"
width ddict "$(./ddict --help)"
for verb in $verbs; do
    page=$man/ddict-$verb.1
    case $verb in unfreeze) page=$man/ddict-freeze.1 ;; esac
    [ -e "$page" ] || { fail "ddict $verb has no manual page"; continue; }
    grep -qE "^\.BR ddict\\\\-$verb \(1\)$" "$man/ddict.1" || fail "ddict.1 does not list $verb"
    [ $verb != load ] || [ -e ddict-load ] || continue
    help=$(./ddict $verb --help) || fail "ddict $verb --help"
    width "ddict $verb" "$help"
    same "ddict $verb --help and $page" "$(help_options "$help")" "$(page_options "$page")"
    case $verb in # these two, and ddictd, have the option table
        run | up) code=$(table_options $verb) ;;
        save) code=$(code_options ./ddict save | without '--keep|--no-pickles') ;;
        restore) code=$(code_options ./ddict restore | without '--files') ;;
        load) code=$(code_options ./ddict load | without '--refill|--remove') ;;
        *) code=$(code_options ./ddict $verb) ;;
    esac
    same "ddict $verb --help and code" "$(long "$(help_options "$help")")" "$(without "$inner" <<<"$code")"
done
help=$(./ddictd --help)
width ddictd "$help"
same "ddictd --help and page" "$(help_options "$help")" "$(page_options "$man/ddictd.8")"
same "ddictd --help and code" "$(help_options "$help")" "$(table_options ddictd)"

# Pages: sections, names, faults.
lint() {
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "$1" 2>&1
    elif command -v man >/dev/null; then
        man --warnings -E UTF-8 -l "$1" 2>&1 >/dev/null
    else
        return 0
    fi
}
command -v mandoc >/dev/null || command -v man >/dev/null || echo "# neither mandoc nor man: faults of pages are not looked for"
pages=0
for page in "$man"/*.[1-8]; do
    pages=$((pages + 1))
    faults=$(lint "$page") && [ -z "$faults" ] || fail "$page has faults: $faults"
    grep -q " doc/man/${page##*/}\( \|\$\)" "$src/doc/local.mk" || fail "$page is not installed"
    for section in SYNOPSIS DESCRIPTION $([[ $page != *.1 ]] || echo EXIT.STATUS EXAMPLES); do
        [[ $page = *.5 ]] || grep -qx "\.SH $section" "$page" || fail "$page has no section $section"
    done
    sed -n '/^\.SH NAME/{n;p}' "$page" | tr -d '\\' | grep -qE "(^|[ ,])$(basename "${page%.*}")[ ,]" || fail "$page does not name itself"
done
[ $pages -gt 20 ] || fail "only $pages pages"
[ $bad = 0 ] && echo "ok manual pages, --help and code have the same options"
exit $bad
