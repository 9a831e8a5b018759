# SPDX-License-Identifier: Apache-2.0
# ends.sh - a table of ways a job can end. Sourced by tests/slurm/8*.t.
#
# Each row is run without a dictionary and with one, at the same time, and the two must end alike: same exit code, same state of the
# job, as soon as each other, nothing left, all nodes idle. Rows whose end can only come with a dictionary say what they want instead.
#
#     row NAME SCOPE WORD=VALUE...   begins it in the background (slots at once); SCOPE is a function run_SCOPE below
#                                    (three at once in user-mode Linux, which has less memory; each of its times is four times as long there)
#     rows_end SENTENCE              waits for all, judges, looks at what is left; call it before and after rows that need the nodes alone
#     table                          prints all rows
#
#     task=  what each of the two tasks runs (sh). `begun` puts a key and says so; what comes after it is to be ended
#     act=   evaluated here when both tasks have begun: $job, $pid (the user's srun, sbatch or salloc), $on (yes: with dictionary), $dir
#     opts=  more words for srun, sbatch or salloc       script=  job scopes: the script (default: srun of the task, its exit code)
#     vars=  NAME=VALUE that the user has set
#     tty=yes  on a terminal: `key C` types ^C, `key CC` two  plain=no  without the run without a dictionary
#     rc= state=  regular expressions: exit code of the user's command, Slurm's "JobState ExitCode" (none: no job; default: as without)
#     within=  seconds that it may take longer than without (default 5, a job 9; plain=no: seconds that it may take)
#     line=  a regular expression: what the one line of ours must say (default: there must be none)
#     maybe=yes  that line need not be there: the managers can have ended in time
#     said=  a regular expression that the output must have besides (what the program says)
#     not=  one that no line may have
#     record=no  nobody can write the end of the dictionary into its record
#     restarts=  so many deaths of managers must be made good, by the record
#     errors=  so many tasks must have got an error from the dictionary within 15 s
. "$(dirname "$0")/lib.sh"
dd="--ddict-managers=2 --ddict-mem=64M"
slots=${slots-6}
[ $slow = 1 ] || slots=3
ends=$(mktemp -d "${TMPDIR:-/var/tmp}/ddict-ends.XXXXXX") && chmod 1777 "$ends" || exit 1
trap 'rm -rf "$ends" "$out"' EXIT
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
names=() judged=0

# Loops here wait for many rows at once, ten looks a second. In user-mode Linux a fork costs 10 ms, so they fork nothing.
exec {nothing}<> <(:)
pause() { read -rt "$1" -u "$nothing" || :; }
now_ms() { echo $((${EPOCHREALTIME//[!0-9]/} / 1000)); }
# until_true SECONDS CMD...: four times as long in user-mode Linux
until_true() {
    local end=$((${EPOCHREALTIME//[!0-9]/} + $1 * slow * 1000000))
    shift
    until "$@"; do
        [ ${EPOCHREALTIME//[!0-9]/} -lt $end ] || return 1
        pause 0.1
    done
}

# One loop asks for all rows: squeue is dear on a small machine. Each answer begins with its number. It waits twice as long
# as squeue took, 0.3 to 1 s.
queue_watch() {
    mkdir -m 1777 "$ends/queue" 2>/dev/null || return 0 # it runs
    sub_long bash -c 'while n=$((n + 1)); [ -e "$0" ]; do
            t=${EPOCHREALTIME//[!0-9]/}
            { echo "number $n"; squeue -h -o "%A %T"; } >"$0/new" && mv "$0/new" "$0/now"
            ms=$(((${EPOCHREALTIME//[!0-9]/} - t) / 500))
            ms=$((ms < 300 ? 300 : ms > 1000 ? 1000 : ms))
            printf -v s %d.%03d $((ms / 1000)) $((ms % 1000))
            sleep $s
        done' "$ends/queue" >/dev/null 2>&1 </dev/null &
    watcher=$!
    until_true 20 test -e "$ends/queue/now" || { echo "not ok squeue answers"; exit 1; }
}
queue_unwatch() {
    [ -e "$ends/queue" ] || return 0
    mv "$ends/queue" "$ends/over"
    wait "$watcher"
    rm -rf "$ends/over"
}
queue_number() { awk 'NR == 1 { print $2 }' "$ends/queue/now"; }
job_over() { # JOB NUMBER: not in an answer that was asked for after NUMBER came
    local line lines
    mapfile -t lines <"$ends/queue/now"
    [ "${lines[0]#number }" -gt $(($2 + 1)) ] || return 1
    for line in "${lines[@]}"; do [[ $line != "$1 "* ]] || return 1; done
}
sub_long() { "$devcluster" run -- "$@"; } # execs: the pid of a background job is the command's own

# What the tasks of both runs have in common. Without a dictionary `put` does nothing.
task_text() { # TASK
    [ "$on" = yes ] && echo 'put() { ddict put "$@"; }' || echo 'put() { :; }'
    echo 'begun() { put "k$SLURM_PROCID" v && echo "begun $SLURM_JOB_ID"; }'
    echo "$1"
}
script_text() {
    echo "#!/bin/bash"
    echo "task=$dir/task"
    echo "${script-srun -N2 -n2 sh \$task}"
}
asked() { [ "$on" = yes ] && echo "$dd"; }

# Scopes: exec the user's command. Memory is named so that jobs fit beside each other.
run_step() { sub_exec srun -J "$label" -N2 -n2 --mem=300M $opts $(asked) /bin/sh "$dir/task"; }
run_batch() { sub_exec sbatch -J "$label" -N2 --mem=300M --open-mode=append -o "$dir/out" $opts $(asked) "$dir/script"; }
run_salloc() { sub_exec salloc -J "$label" -Q -N2 --mem=300M $opts $(asked) "$dir/script"; }
run_hand() { # by hand in a script, without the plugin's options
    [ "$on" = no ] || sed -i '2i eval "$(ddict up --managers=2 --mem=64M)" || exit 90' "$dir/script"
    sub_exec sbatch -J "$label" -N2 --mem=300M --open-mode=append -o "$dir/out" $opts "$dir/script"
}
run_inner() { # a step of its own in an allocation
    sed -i "s/^srun /srun $(asked) /" "$dir/script"
    sub_exec salloc -J "$label" -Q -N2 --mem=300M $opts "$dir/script"
}
sub_exec() {
    # shellcheck disable=SC2086
    set -- ${vars:+env $vars} "$@"
    if [ -n "${tty-}" ]; then exec python3 "$tests/terminal.py" "$dir/keys" "$devcluster" run -- "$@"; fi
    exec "$devcluster" run -- "$@"
}
key() { timeout 5 sh -c 'echo "$1" >"$2"' sh "$1" "$dir/keys"; }

# ours NODE WHAT - pids of $job's ddictd or manager processes on a node (1 is the first)
ours() {
    local list p net
    net=$(readlink "/proc/$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/run/${nodes[$1 - 1]}.pid")/ns/net")
    list=$(pgrep -f "^[^ ]*ddictd --name [0-9]+[.]$job[.]")
    for p in $list; do
        [ "$(readlink "/proc/$p/ns/net")" = "$net" ] || continue
        if grep -qx "$(ps -o ppid= -p "$p" | tr -d ' ')" <<<"$list"; then [ "$2" = manager ]; else [ "$2" = ddictd ]; fi && echo "$p"
    done
}
parent_is() { grep -qsx "$2" "/proc/$(ps -o ppid= -p "$1" | tr -d ' ')/comm"; } # PID COMM
hidden_srun() { # srun has a helper process that looks the same: it is its child
    local p
    for p in $(pgrep -f "^[^ ]*srun --jobid=$job --nodelist=$DEVCLUSTER_ID.* --job-name=ddict"); do
        parent_is "$p" srun || echo "$p"
    done
}
user_sruns() { pgrep -f "^[^ ]*srun .*$dir/task" | sort -rn; } # in an allocation; the helper would end the step when srun is gone
user_srun() {
    local p
    for p in $(user_sruns); do
        parent_is "$p" srun || echo "$p"
    done
}
hidden_up() { ps -o ppid= -p "$(hidden_srun)" | tr -d ' '; }
step_of() { # managers or user
    sub squeue -s -h -o '%i %j' | awk -v w="$1" -v j="$job" 'index($1, j ".") != 1 || $2 ~ /^(batch|extern|interactive)$/ { next } ($2 == "ddict") == (w == "managers") { print $1 }'
}
held() { # SECONDS: suspended so long
    "$devcluster" run -u root -- scontrol suspend "$job" && sleep "$1" && "$devcluster" run -u root -- scontrol resume "$job"
}
kill9() { t0=$(now_ms) && kill -KILL "$@"; } # to find them takes a while

gone() { # or a zombie
    local stat
    { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || return 0
    [[ ${stat##*) } = [ZX]* ]]
}
batch() { [ "$scope" = batch ] || [ "$scope" = hand ]; }
over() {
    local number
    if ! batch; then gone; else [ -e "$dir/sent" ] && read -r number <"$dir/sent" && job_over "$job" "$number"; fi
}
begun_both() {
    local line lines n=0
    mapfile -t lines <"$dir/out"
    for line in "${lines[@]}"; do [[ $line != "begun "* ]] || n=$((n + 1)); done
    [ $n -ge "${tasks-2}" ] || over
}
field() { grep -o "\b$1=[^ ]*" "$dir/job" | head -n 1 | cut -d= -f2; }

# $job, unless it is known
job_named() { job=${job:-$(sub squeue -h -t all -n "$label" -o %A)}; [ -n "$job" ]; }

# In a subshell of its own: $dir gets out, rc, ms, state.
attempt() {
    local t0 number job=''
    task_text "$task" >"$dir/task"
    script_text >"$dir/script"
    chmod 755 "$dir/script"
    : >"$dir/out"
    chmod 666 "$dir/out"
    [ -z "${tty-}" ] || mkfifo "$dir/keys"
    (cd "$dir" && run_"$scope") >>"$dir/out" 2>&1 </dev/null &
    pid=$!
    if batch; then
        wait $pid
        job=$(awk '/^Submitted batch job/ { print $4; exit }' "$dir/out")
        queue_number >"$dir/sent"
    fi
    until_true 150 begun_both || echo "not begun within $((150 * slow)) s" >>"$dir/wrong"
    job=${job:-$(awk '$1 == "begun" { print $2; exit }' "$dir/out")}
    until_true $([ "$scope" = inner ] && echo 30 || echo 0) job_named || :
    echo "$job" >"$dir/id"
    t0=$(now_ms)
    [ -z "${act-}" ] || eval "$act" >>"$dir/act"
    if ! until_true "${patience-90}" over; then
        echo "not over within $((${patience-90} * slow)) s" >>"$dir/wrong"
        batch || kill -KILL $pid
        [ -z "$job" ] || sub scancel "$job"
    fi
    wait $pid 2>/dev/null
    echo $? >"$dir/rc"
    number=$(queue_number)
    [ -z "$job" ] || until_true 60 job_over "$job" "$number" || echo "the job is not over $((60 * slow)) s later" >>"$dir/wrong"
    echo $(($(now_ms) - t0)) >"$dir/ms"
    [ -z "$job" ] || sub scontrol -o show job "$job" >"$dir/job" 2>&1
    ! batch || field ExitCode | awk -F: '{ print ($2 > 0 ? 128 + $2 : $1) }' >"$dir/rc"
    echo "$(field JobState) $(field ExitCode)" >"$dir/state"
}

row() {
    local name=$1 scope=$2 word on n=${#names[@]}
    shift 2
    [[ $name/$scope =~ ${ONLY-} ]] || return 0 # to try some rows
    names+=("$name")
    queue_watch
    for on in no yes; do
        mkdir -m 1777 "$ends/$n.$on"
        printf '%s\n' "$scope" >"$ends/$n.$on/scope"
        while [ "$(jobs -rp | wc -l)" -gt "$slots" ]; do wait -n; done
        (
            trap - EXIT
            dir=$ends/$n.$on opts='' vars='' label=e$$-$n-$on
            for word in "$@"; do declare "$word"; done
            declare -p rc state within line maybe said not plain errors record restarts 2>/dev/null >"$dir/wanted"
            [ $on.${plain-yes} = no.no ] || attempt 2>>"$dir/act"
        ) &
    done
}

# What Slurm knows of jobs and nodes, and each process with the job it belongs to.
left_look() {
    local line pid
    remains | while read -r line; do
        case $line in "process "*)
            pid=$(echo "$line" | awk '{ print $3 }')
            line+=" $({ tr '\0' '\n' <"/proc/$pid/environ" | grep -m1 ^SLURM_JOB_ID=; } 2>/dev/null)" ;;
        esac
        echo "$line"
    done
}
left_of() { [ -n "$1" ] && grep -Ec -- "(\b|_)$1\b" "$ends/left"; } # JOB

secs() { awk -v ms="${1:-0}" 'BEGIN { printf "%.1f", ms / 1000 }'; }
get() { cat "$ends/$1.$2/$3" 2>/dev/null; }
fits() { [[ $1 =~ ^($2)$ ]]; }

events() { cat "$ends/$1.yes"/*.jsonl 2>/dev/null | grep -c "^{\"event\":\"$2\","; } # N EVENT: in its record

managers_step() { # N
    local step
    step=$(cat "$ends/$1.yes"/*.jsonl 2>/dev/null | grep -o '"managers_step":"[0-9.]*"' | cut -d'"' -f4 | head -n 1)
    echo "${step:-none}"
}

judge() { # N
    local n=$1 name scope rc='' state='' within='' line='' maybe=no said='' not='' plain=yes errors='' record=yes restarts='' got ms limit ours
    name=${names[$n]}
    scope=$(get "$n" yes scope)
    eval "$(sed 's/^declare -- //; s/^declare -x //' "$ends/$n.yes/wanted")"
    cp "$ends/$n.yes/out" "$out" 2>/dev/null
    cat "$ends/$n".{no,yes}/wrong 2>/dev/null >>"$out"
    [ -z "${SHOW-}" ] || sed 's/^/## /' "$out" # to see what is said, while a row is written
    ms=$(get "$n" yes ms)
    if [ -s "$ends/$n.yes/wrong" ] || [ -s "$ends/$n.no/wrong" ]; then not_ok "$name ($scope): ends"; else ok "$name ($scope): ends"; fi
    rc=${rc:-$(get "$n" no rc)}
    got=$(get "$n" yes rc)
    if [ -n "$got" ] && fits "$got" "$rc"; then ok "$name ($scope): exit code $got"; else not_ok "$name ($scope): exit code $got, wanted $rc"; fi
    state=${state:-$(get "$n" no state)}
    got=$(get "$n" yes state)
    if [ "$state" = none ]; then is "$name ($scope): there is no job" "$got" " "
    elif [ -n "${got%% *}" ] && fits "$got" "$state"; then ok "$name ($scope): the job is $got"; else not_ok "$name ($scope): the job is '$got', wanted '$state'"; fi
    # Slurm 22.05 looks once a second, then every two, whether a step is gone that runs when the job's script ends.
    case $scope in step | inner) : "${within:=5}" ;; *) : "${within:=9}" ;; esac
    limit=$(($(get "$n" no ms || echo 0) + within * slow * 1000))
    if [ "${ms:-999999}" -le $limit ]; then ok "$name ($scope): in time"; else not_ok "$name ($scope): $(secs "$ms") s, wanted $(secs $limit)"; fi
    # Lines of ours: the plugin's, ddict up's, ddictd's; nothing that Slurm says of the managers' step. That a start takes long is no word of its end.
    ours=$(grep -Ev '^rank |ddict: [0-9]+ managers? on .*; record |ddict( up)?: still waiting for the managers' "$out" | grep -Ec '(^|: )ddict: |^ddict [a-z]+: |ddictd|^ddict1 |STEP '"$(managers_step "$n") ")
    if [ -z "$line" ] || { [ "$ours" = 0 ] && [ "$maybe" = yes ]; }; then
        if [ "$ours" = 0 ]; then ok "$name ($scope): nothing is said"; else not_ok "$name ($scope): nothing is to be said"; fi
    elif [ "$ours" = 1 ] && grep -Eq -- "$line" "$out"; then ok "$name ($scope): one line says it"
    else not_ok "$name ($scope): $ours lines; one is wanted like: $line"; fi
    if [ -n "$errors" ]; then
        is "$name ($scope): tasks with an error in time" "$(grep -Ec "^rank [0-9]+: an error ([0-9]|1[0-4])\." "$out")" "$errors"
    fi
    if [ "$record" != no ]; then
        is "$name ($scope): the record has the end of each dictionary" "$(events "$n" job_end)" "$(events "$n" start)"
    fi
    [ -z "$restarts" ] || is "$name ($scope): the record has each death that was made good" "$(events "$n" restart)" "$restarts"
    [ -z "$not" ] || has_not "$name ($scope): and nothing that it must not" "$not"
    [ -z "$said" ] || has "$name ($scope): the program says it" "$said"
}

# Why a process may be left: what slurmctld and the slurmd of its node said last.
slurmds_say() {
    local name
    for name in slurmctld $(awk '$1 == "process" && !seen[$2]++ { print "slurmd-" $2 }' "$ends/left"); do
        echo "# --- $name"
        tail -n 40 "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/log/$name.log" 2>&1 | cut -c1-200 | sed 's/^/# /'
    done
}

rows_end() { # SENTENCE
    local i n
    while jobs -rp | grep -qvx "${watcher-0}"; do wait -n; done
    queue_unwatch
    for i in $(seq 45); do
        left_look >"$ends/left"
        [ -s "$ends/left" ] || break
        sleep 1
    done
    for ((n = judged; n < ${#names[@]}; n++)); do
        judge $n
        echo "$(left_of "$(get $n yes id)" || :)" >"$ends/$n.left"
    done
    judged=${#names[@]}
    cp "$ends/left" "$out"
    if [ -s "$out" ] && ! slurm_forgot; then not_ok "$*"; slurmds_say; else ok "$*"; fi
    sub sinfo -h -o '%D %T' | paste -sd, >"$ends/nodes"
    for ((n = 0; n < judged; n++)); do [ -e "$ends/$n.nodes" ] || cp "$ends/nodes" "$ends/$n.nodes"; done
}

table() {
    local n
    printf '# %-44s %-7s %-4s %-18s %8s %9s %5s  %s\n' end scope exit 'job' seconds without left nodes
    for ((n = 0; n < ${#names[@]}; n++)); do
        printf '# %-44s %-7s %-4s %-18s %8s %9s %5s  %s\n' "${names[$n]}" "$(get $n yes scope)" "$(get $n yes rc)" "$(get $n yes state)" \
            "$(secs "$(get $n yes ms)")" "$([ -s "$ends/$n.no/ms" ] && secs "$(get $n no ms)" || echo -)" "$(cat "$ends/$n.left")" \
            "$(cat "$ends/$n.nodes")"
    done
}

ends_finish() {
    table
    finish
}
