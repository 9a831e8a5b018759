#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What bash offers for the words of a `ddict` command: its completion is called as bash calls it. In a build folder: ddict is run.
src=${srcdir-.} bad=0
. "$src/client/cmd/completion/ddict" || exit 1
fail() { echo "not ok $*"; bad=1; }

# offers LINE - what is offered at its end; bash makes "=" a word of its own
offers() {
    local line=${1//=/ = }
    read -ra COMP_WORDS <<<"$line"
    [[ $line = *" " && $1 != *= ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _ddict ./ddict
    echo "${COMPREPLY[*]}"
}
# is LINE OFFERS
is() {
    local got
    got=$(offers "$1")
    if [ "$got" = "$2" ]; then echo "ok $1"; else fail "$1: \"$got\", not \"$2\""; fi
}
is "ddict un" "unfreeze"
is "ddict re" "report restore results"
is "ddict --v" "--version"
is "ddict run --wi" "--wire="
is "ddict up --wire=" "plain auth encrypt"
is "ddict up --wire=a" "auth"
is "ddict up --wire a" "auth"
is "ddict up --mem=1G --transport=o" "ofi"
is "ddict run --mem 1G --loc" "--local"
is "ddict run -n 2 --verb" "--verbose"
is "ddict run --mem=" ""
is "ddict run --mem=1G true --w" ""
is "ddict run -- --w" ""
is "ddict save --pre" "--prefix="
is "ddict bench --net" "--net"
is "ddict nosuch --" ""
for verb in up run; do
    table=$(tests/unit/option_list | sed -n "s/^$verb //p" | sort)
    [ "$(offers "ddict $verb --" | tr ' ' '\n' | tr -d = | sort)" = "$table" ] && [ -n "$table" ] ||
        fail "ddict $verb --: $(offers "ddict $verb --"), and the option table has $table"
done
[ "$(offers "ddict " | wc -w)" -gt 17 ] || fail "only these verbs: $(offers "ddict ")"
[ "$(complete -p ddict)" = "complete -o default -F _ddict ddict" ] || fail "$(complete -p ddict)"
[ $bad = 0 ] && echo "ok bash completes verbs, options and choices"
exit $bad
