#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sruns.sh - `ddict sruns`: one srun for each component of a heterogeneous job, as if they were one. Scripts stand for srun.
set -u
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
bad=0
ddict=$PWD/ddict
is() { if [ "$2" = "$3" ]; then echo "ok $1"; else echo "not ok $1: got '$2', wanted '$3'"; bad=1; fi; }
# await CMD... - at most 20 s
await() { local i; for ((i = 0; i < 200; i++)); do "$@" && return 0; sleep 0.1; done; return 1; }

cat >"$work/srun" <<'END'
#!/bin/bash
# srun NAME HOW
trap 'echo "$1 told"; exit 143' TERM
case $2 in
echo) echo "$1 begins"; echo "$1 says" >&2; while read -r line; do echo "$1 has ${#line}"; done; echo "$1 ends" ;;
fail)
    [ -z "${3-}" ] || echo "$1 begins"
    for ((i = 0; i < 200; i++)); do [ "${after-}" ] && [ ! -e "$0.waits" ] || break; sleep 0.1; done
    exit "${3:-4}"
    ;;
wait) touch "$0.waits"; echo "$1 begins"; while :; do sleep 0.1; done ;;
long) head -c 5000000 /dev/zero | tr '\0' "$1"; echo ;;
half) printf '%s' "$1 half a line" ;;
esac
END
chmod 755 "$work/srun"
run() { timeout 60 "$ddict" sruns "$@"; }
s=$work/srun

got=$({ echo one; head -c 300000 /dev/zero | tr '\0' x; echo; } | run apart 3 "$s" a echo 3 "$s" b echo 3 "$s" c echo 2>"$work/err" | sort)
is "each_has_all_of_the_input_and_its_end" "$got" "$(printf '%s\n' {a,b,c}' '{begins,ends,'has 3','has 300000'} | sort)"
is "and_what_they_say_on_stderr_comes" "$(sort "$work/err" | tr '\n' ' ')" "a says b says c says "
run apart 3 "$s" a echo 3 "$s" b echo </dev/null >/dev/null 2>&1
is "it_ends_with_0_if_all_did" $? 0
got=$(run apart 3 "$s" a long 3 "$s" b long </dev/null | tr -s ab | sort | tr '\n' ' ')
is "long_lines_stay_whole" "$got" "a b "
is "an_unfinished_line_is_finished" "$(run apart 3 "$s" a half 3 "$s" b half </dev/null | sort | tr '\n' '|')" "a half a line|b half a line|"

export after=yes # ... the other one has begun
got=$(run apart 3 "$s" a fail 3 "$s" b wait </dev/null; echo "code $?")
is "one_that_fails_without_a_line_ends_all" "$(grep -v begins <<<"$got" | tr '\n' ' ')" "b told code 4 "
{ sleep 2; echo x; } | after='' run apart 4 "$s" a fail 3 3 "$s" b echo >"$work/out" 2>/dev/null
is "one_that_fails_later_leaves_the_others" "$? $(sort "$work/out" | tr '\n' '|')" "3 a begins|b begins|b ends|b has 1|"
rm -f "$s.waits"
got=$(run together 4 "$s" a fail 3 3 "$s" b wait </dev/null; echo "code $?")
is "together_it_ends_them" "$(grep -v begins <<<"$got" | tr '\n' ' ')" "b told code 3 "

run apart 3 "$s" a wait 3 "$s" b wait </dev/null >"$work/out" &
await sh -c "[ \$(grep -c begins '$work/out') = 2 ]"
kill -TERM "$(pgrep -P $!)"
wait $!
is "a_signal_is_for_all" "$? $(sort "$work/out" | tr '\n' '|')" "143 a begins|a told|b begins|b told|"
is "words_that_are_none_start_nothing" "$(run apart 9 "$s" a wait </dev/null 2>&1 | grep -c 'wrong words')" 1
exit $bad
