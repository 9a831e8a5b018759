#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# socket.sh - `ddict socket`: processes with a network of their own reach the managers by a file. Invariant: whoever is killed, the file goes, and no process stays.
set -u
if [ -z "${SOCKET_INSIDE-}" ]; then
    ddict=${DDICT:-$PWD/ddict}
    dir=$(mktemp -d) || exit 1
    export ddict dir SOCKET_INSIDE=1
    trap 'rm -rf "$dir"' EXIT
    here=$(realpath "$0")
    mkdir "$dir/tmp" && cd "$dir" && TMPDIR=$dir/tmp timeout 120 "$ddict" run --local --managers=2 --mem=32M -- bash "$here"
    exit $?
fi

failed=0 files=$dir/tmp
ok() { echo "ok $1"; }
not_ok() { echo "not ok $1"; sed 's/^/# /' err; failed=1; }
# is SENTENCE GOT WANTED
is() { if [ "$2" = "$3" ]; then ok "$1"; else echo "# got '$2', wanted '$3'"; not_ok "$1"; fi; }
# soon SENTENCE CMD... - within ten seconds CMD succeeds
soon() {
    local i name=$1
    shift
    for ((i = 0; i < 200; i++)); do
        "$@" && { ok "$name"; return; }
        sleep 0.05
    done
    not_ok "$name"
}
no_file() { [ -z "$(ls -A "$files")" ]; }
one_file() { [ "$(find "$files" -type s | wc -l)" = 1 ]; }
nowhere() { [ -z "$(find "$dir" -name 'ddict-*')" ]; }
no_process() { [ -z "$(pgrep -f "$files|mark-$$" | grep -vx $$)" ]; }
: >err

alone=''
for alone in "unshare -n" "unshare -rn" ""; do $alone true 2>/dev/null && break; done
if [ -n "$alone" ]; then
    $alone "$ddict" put k v 2>err
    is a_network_of_its_own_hides_the_managers "$? $(grep -c 'ddict socket' err)" "1 1"
    is the_file_leads_to_them "$("$ddict" socket -- $alone sh -c '"$ddict" put k v && "$ddict" get k' 2>err)" v
    is it_may_be_shown_elsewhere "$("$ddict" socket -- $alone sh -c 'ln -s "$0" "$dir/shown" && DDICT_SOCKET=$dir/shown "$ddict" get k' {socket} 2>err)" v
    rm -f "$dir/shown"
    is nobody_there_is_said "$(DDICT_SOCKET=$dir/none $alone "$ddict" get k 2>&1 | grep -c "nor on the socket $dir/none")" 1
else
    echo "skipped: no network namespaces on this machine"
fi
is the_file_is_the_users_alone "$("$ddict" socket -- stat -c '%a %F' {socket} 2>err)" "600 socket"
# shellcheck disable=SC2016
is its_path_is_in_the_variable_and_the_arguments "$("$ddict" socket --dir . -- sh -c '[ "x$DDICT_SOCKET" = "$0" ] && [ -S "$DDICT_SOCKET" ] && case $DDICT_SOCKET in "$dir"/*) echo yes ;; esac' x{socket} 2>err)" yes
soon the_file_goes_with_the_command nowhere
"$ddict" socket -- sh -c 'exit 7' 2>err
is the_exit_code_is_the_commands $? 7
"$ddict" socket -- /no/such/command 2>err
is a_command_that_is_not_there_is_told "$? $(grep -c '/no/such/command' err)" "127 1"
"$ddict" socket 2>err
is without_a_command_it_is_wrong_usage $? 2
"$ddict" socket --dir=/no/such/folder -- true 2>err
is a_folder_that_is_not_there_is_told "$? $(grep -c '/no/such/folder' err)" "1 1"
"$ddict" socket --name=0.local.nobody -- true 2>err
is no_dictionary_is_told "$? $(wc -l <err)" "1 1"
is it_leads_to_no_other_dictionary "$("$ddict" socket -- env DDICT_NAME=0.local.nobody "$ddict" ls 2>&1 | grep -c 'not of 0.local.nobody')" 1
soon nothing_is_left_of_all_these no_file

# Who is killed.
"$ddict" socket -- bash -c 'exec sleep 300 2>/dev/null' &
soon a_file_is_there one_file
kill -9 $!
soon a_killed_command_leaves_no_file no_file
"$ddict" socket -- bash -c 'while :; do sleep 0.1; done' mark-$$ &
pid=$!
soon a_second_file_is_there one_file
w=$(pgrep -f "socket -- bash -c while .* mark-$$\$" | grep -vx "$pid" | head -n 1)
is somebody_watches "${w:+yes}" yes
kill -9 "$w"
is a_killed_watcher_changes_nothing "$("$ddict" ls | wc -l; find "$files" -type s | wc -l)" "$("$ddict" ls | wc -l; echo 1)"
kill -9 $pid
soon without_a_watcher_the_file_goes_too no_file

# A dictionary that ends, and one whose ddictd is killed, while the command runs.
# shellcheck disable=SC2016
inner='"$ddict" socket -- sleep 300 & pid=$!; until [ -n "$(ls -A "$TMPDIR")" ]; do sleep 0.05; done; echo $pid >"$dir/pid"; '
"$ddict" run --local --managers=1 --mem=16M -- bash -c "$inner exit 0" 2>err
soon the_end_of_the_dictionary_removes_the_file no_file
kill -9 "$(cat pid)"
# shellcheck disable=SC2016
"$ddict" run --local --managers=1 --mem=16M -- bash -c "$inner"'kill -9 $(pgrep -f "ddictd .*--name $DDICT_NAME( |\$)"); exit 0' 2>err
soon a_killed_ddictd_leaves_no_file no_file
kill -9 "$(cat pid)"

# What was left when all were killed at once.
dead() { python3 -c 'import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen() if sys.argv[3] == "live" else None
os.utime(sys.argv[1], (0, int(sys.argv[2]))) if sys.argv[2] != "now" else None
if sys.argv[3] == "live": os.write(1, b"x"); sys.stdin.read()' "$@"; }
dead "$files/ddict-dead.sock" 1 dead
dead "$files/ddict-young.sock" now dead
touch -d '1 hour ago' "$files/ddict-file.sock"
mkfifo hold
dead "$files/ddict-live.sock" 1 live <hold >"$dir/x" &
live=$!
exec 8>hold
soon a_listener_is_there test -s "$dir/x"
"$ddict" socket -- true 2>err
is dead_files_of_before_are_removed_and_no_others "$(cd "$files" && echo ddict-{dead,young,file,live}.sock | tr ' ' '\n' | while read -r f; do [ -e "$f" ] && echo "$f"; done | paste -sd' ')" \
    "ddict-young.sock ddict-file.sock ddict-live.sock"
exec 8>&-
wait $live
rm -f "$files"/*
soon no_process_stays no_process
exit $failed
