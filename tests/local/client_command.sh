#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# client_command.sh - the verbs of the `ddict` command as a user types them: output, exit codes, and one line on stderr for each error.
set -u
if [ -z "${CLIENT_COMMAND_INSIDE-}" ]; then
    ddict=${DDICT:-$PWD/ddict}
    export ddict CLIENT_COMMAND_INSIDE=1
    dir=$(mktemp -d) || exit 1
    trap 'rm -rf "$dir"' EXIT
    here=$(realpath "$0")
    (cd "$dir" && exec timeout 120 "$ddict" run --local --managers=2 --mem=256M -- bash "$here")
    exit $?
fi

failed=0
# is CODE OUTPUT COMMAND...: stdout and exit code are these; a failure of a verb says exactly one line (two with usage) beginning with "ddict VERB: "
is() {
    local code=$1 want=$2 got rc lines
    shift 2
    got=$("$@" 2>err; echo "rc=$?")
    rc=${got##*rc=}
    got=${got%rc=*}
    got=${got%$'\n'}
    lines=$(wc -l <err)
    if [ "$rc" != "$code" ] || { [ "$want" != "*" ] && [ "$got" != "$want" ]; } ||
        { [ "$code" = 0 ] && [ "$lines" != 0 ]; } || { [ "$code" != 0 ] && { [ "$lines" -lt 1 ] || [ "$lines" -gt 2 ] || ! grep -q "^ddict$([ "$1" != "$ddict" ] || echo " $2: ")" err; }; }; then
        echo "FAILED: $*"
        echo "  code $rc, expected $code"
        echo "  stdout: $got"
        echo "  expected: $want"
        sed 's/^/  stderr: /' err
        failed=1
    fi
}
sorted() { "$@" | LC_ALL=C sort; }

is 0 "" "$ddict" put epoch 3
is 0 3 "$ddict" get epoch
is 0 1 "$ddict" add counted
is 0 -4 "$ddict" add -- counted -5
is 0 7 "$ddict" add --literal "('n', 1)" 7
is 0 -4 "$ddict" get counted
is 2 "" "$ddict" add counted many
is 2 "" "$ddict" add
is 2 "" "$ddict" add counted 1 2
is 1 "" "$ddict" add epoch # bytes
is 0 "" "$ddict" append lines one
is 0 "" "$ddict" append -- lines -two
is 0 one-two "$ddict" get lines
is 0 "" "$ddict" append lines - < <(echo three)
is 0 one-twothree "$ddict" get lines
is 2 "" "$ddict" append lines
is 0 "" "$ddict" rm lines counted
is 0 "" "$ddict" rm --literal "('n', 1)"
is 0 "" "$ddict" put --literal "('x', 3)" tuple
is 0 "" "$ddict" put --int 17 seventeen
is 0 "" "$ddict" put --int --type int -- -7 -42
is 0 "" "$ddict" put --raw-key 'raw\x00key' bytes
is 0 "" "$ddict" put --type float pi 3.25
is 0 "" "$ddict" put --type str text "gr\"u'ß"
is 0 tuple "$ddict" get --literal "( 'x',3 )"
is 0 seventeen "$ddict" get --int 17
is 0 -42 "$ddict" get --int -- -7
is 0 bytes "$ddict" get --raw-key 'raw\x00key'
is 0 3.25 "$ddict" get pi
is 0 "$(printf '%s\n' "'epoch'" "'pi'" "'text'" "('x', 3)" -7 17 'raw\x00key')" sorted "$ddict" ls
is 0 "'epoch'" "$ddict" ls --prefix ep
is 0 17 "$ddict" ls --int --prefix 1
is 0 'raw\x00key' "$ddict" ls --raw-key --prefix 'raw\x00'
is 0 "" "$ddict" ls --prefix none
is 0 2 bash -c '"$ddict" ls --limit 2 | wc -l'
is 0 "8 B float" bash -c '"$ddict" ls -l --prefix pi | awk "END { print \$1, \$2, \$3 }"'
is 0 "7 int" python3 -c 'import json,os,subprocess
a = json.loads(subprocess.check_output([os.environ["ddict"], "ls", "--json", "-l"]))
print(len(a), [e["kind"] for e in a if e["key"] == "-7"][0])'

head -c 3000000 /dev/urandom >in
is 0 "" "$ddict" put big --file in
is 0 "" "$ddict" get big -o out
cmp in out || failed=1
is 0 "" bash -c '"$ddict" put big - <in'
is 0 "" bash -c '"$ddict" get big | cmp - in'
is 0 "" "$ddict" put empty ""
is 0 "" "$ddict" get empty

files() { (cd "$1" && find . -type f | LC_ALL=C sort | xargs); }
for key in s/a/1 s/a/2 s/b/1 s/b/.hidden t; do "$ddict" put $key "of $key"; done
"$ddict" put --int 5 five
is 0 "" "$ddict" get --prefix s/ -o all
[ "$(files all) $(cat all/b/1)" = "./a/1 ./a/2 ./b/.hidden ./b/1 of s/b/1" ] || { echo "FAILED: files of s/: $(files all)"; failed=1; }
is 0 "" "$ddict" get --prefix s/a -o a
is 0 "" "$ddict" get --prefix s/a/ -o below
[ "$(files a), $(files below)" = "./a/1 ./a/2, ./1 ./2" ] || { echo "FAILED: files of s/a: $(files a), $(files below)"; failed=1; }
is 0 "" "$ddict" get --prefix s/ --limit 3 -o some
[ "$(files some | wc -w)" = 3 ] || { echo "FAILED: three files: $(files some)"; failed=1; }
"$ddict" put s/a/1 new
is 0 "" "$ddict" get --prefix s/a/1 -o below
[ "$(cat below/1)" = new ] || { echo "FAILED: a file is not replaced"; failed=1; }
mkdir outside links
ln -s ../outside links/b && ln -s "$PWD/outside/file" links/1 # none is followed
is 1 "" "$ddict" get --prefix s/b -o links
is 1 "" "$ddict" get --prefix s/a/1 -o links
[ -z "$(ls -A outside)" ] || { echo "FAILED: links lead out of the folder"; failed=1; }
rm below/1 && mkfifo below/1
is 1 "" timeout -k 5 60 "$ddict" get --prefix s/a/1 -o below # nobody reads
for key in /abs/x ../up s/../up s//x s/. s/a; do "$ddict" put "$key" bad; done # s/a: a file where others have a folder
is 0 "" "$ddict" get --prefix / -o absolute
"$ddict" put abs/x good # not the file of /abs/x
is 1 "" "$ddict" get --prefix "" -o every
[ "$(cat every/abs/x) $(cat absolute/abs/x)" = "good bad" ] || { echo "FAILED: two keys have one file"; failed=1; }
"$ddict" rm abs/x
is 1 "" "$ddict" get --prefix s/ -o bad
[ "$(files absolute), $(files bad | sed 's,^./a/[12],,; s,./a/[12],,; s,./a ,,; s,^ *,,')" = "./abs/x, ./b/.hidden ./b/1" ] || { echo "FAILED: files of $(files absolute), $(files bad)"; failed=1; }
"$ddict" get --prefix s/ -o bad 2>&1 | grep -q "^ddict get: [456] keys were not written: no file below bad can have the name of 's/" || { echo "FAILED: who is left out is not told"; failed=1; }
is 1 "" "$ddict" get --prefix .. -o bad
[ ! -e up ] || { echo "FAILED: a file was written outside"; failed=1; }
is 3 "" "$ddict" get --prefix none -o none
is 1 "" "$ddict" get --prefix s/ -o in
is 1 "" "$ddict" get --prefix s/b/1 -o no/such/folder
is 2 "" "$ddict" get --prefix s/
is 2 "" "$ddict" get --prefix s/ -o all key
is 2 "" "$ddict" get --prefix s/ -o all --wait 1
is 2 "" "$ddict" get --prefix 5 -o all --int
is 2 "" "$ddict" get --limit 2 t
is 2 "" "$ddict" get --prefix s/ -o all --limit 0
for key in s/a/1 s/a/2 s/b/1 s/b/.hidden t /abs/x ../up s/../up s//x s/. s/a; do "$ddict" rm "$key"; done
is 0 "" "$ddict" rm --int 5

is 3 "" "$ddict" get nokey
is 3 "" "$ddict" get --wait 0.1 nokey
is 3 "" "$ddict" put --new epoch 4
is 3 "" "$ddict" put --existing nokey 4
is 0 "" "$ddict" put --existing epoch 5
is 0 5 "$ddict" get epoch
is 3 "" "$ddict" rm nokey epoch
is 3 "" "$ddict" get epoch
is 0 "" "$ddict" rm -f nokey
is 1 "" "$ddict" get big -o /no/such/folder
is 1 "" "$ddict" put x --file /no/such/file
is 1 "*" bash -c '"$ddict" ls >/dev/full'
is 2 "" "$ddict" get
is 2 "" "$ddict" get a b
is 2 "" "$ddict" get --wait soon a
is 2 "" "$ddict" get --no-such-option a
is 2 "" "$ddict" get --literal "('x'"
is 2 "" "$ddict" put --int 007 x
is 2 "" "$ddict" put a
is 2 "" "$ddict" put --type float a abc
is 2 "" "$ddict" put --new --existing a b
is 2 "" "$ddict" rm
is 2 "" "$ddict" ls --limit x
is 2 "" "$ddict" bench --sizes 0
is 2 "" "$ddict" stats extra
is 1 "" env -u DDICT_NAME "$ddict" ls
is 1 "" "$ddict" ls --name 0.local.nobody
(sleep 0.3; "$ddict" put late yes) &
is 0 yes "$ddict" get --wait 10 late
wait

for verb in run up down stats report ls get put rm bench; do
    is 0 "*" "$ddict" $verb --help
done
is 0 "*" "$ddict" --help
is 0 "ddict (slurm-ddict) $("$ddict" --version | awk '{print $3}')" "$ddict" --version
is 0 "2 9" python3 -c 'import json,os,subprocess
s = json.loads(subprocess.check_output([os.environ["ddict"], "stats", "--json"]))
print(len(s["managers"]), s["total"]["num_keys"])'
is 0 "4" bash -c '"$ddict" stats | grep -cE "^ *(manager|0|1|total) "'
is 0 "2 gauge 9" bash -c '"$ddict" stats --metrics | awk "/^ddict_num_keys{manager=\"[01]\",node=\".*\"} / { n++; keys += \$2 } /^# TYPE ddict_num_keys / { t = \$4 } END { print n, t, keys }"'
is 0 "2 2" bash -c '"$ddict" stats --metrics | awk "/^ddict_latency_count{manager=\"[01]\",node=\".*\",of=\"put\"} / { n++ } /^ddict_pool_utilization{.*} [0-9.]+$/ { u++ } END { print n, u }"'
is 0 "# EOF" bash -c '"$ddict" stats --metrics | tail -n 1'
is 0 "" bash -c '"$ddict" stats --metrics | grep -vxE "# TYPE ddict_[a-z0-9_]+ gauge|# EOF|ddict_[a-z0-9_]+\{manager=\"[01]\",node=\"[^\"]+\"(,of=\"[a-z0-9_]+\")?\} -?[0-9.e+-]+" || :'
is 2 "" "$ddict" stats --every=0
is 2 "" "$ddict" stats --every=1 --metrics
is 0 9 bash -c '"$ddict" ls | wc -l'
is 0 "" "$ddict" rm --all
is 0 "" "$ddict" ls
"$ddict" stats --json --every=0.05 >every.out 2>&1 &
again=$!
for ((i = 0; i < 400; i++)); do
    [ "$(grep -c '^{"managers":.*}$' every.out)" -lt 3 ] || break
    sleep 0.05
done
[ $i -lt 400 ] || { echo "FAILED: stats --every printed $(wc -l <every.out) lines"; failed=1; }
is 0 "" "$ddict" down
wait $again || { echo "FAILED: stats --every ended with $?"; tail -n 1 every.out; failed=1; }
exit $failed
