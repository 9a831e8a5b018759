# SPDX-License-Identifier: Apache-2.0
# limits.sh - a job in the background whose memory limit the test changes. Sourced after lib.sh.
[ -d /sys/fs/cgroup/system.slice/"${nodes[0]}"_slurmstepd.scope ] || { echo "wants cgroup v2: contrib/images/run sid --cgroup v2"; exit 77; }
work=$PWD/limits.$$
mkdir -m 1777 "$work" || exit 1
trap 'rm -rf "$work" "$out" "$out".*' EXIT

# job_folder [NODE] - the folder of the only job there: job_N, since Slurm 26.05 the job's SLUID
job_folder() {
    local f
    for f in /sys/fs/cgroup/system.slice/"${1:-${nodes[0]}}"_slurmstepd.scope/*/step_0/; do
        [ ! -d "$f" ] || echo "${f%/step_0/}"
    done
}
in_messages() { echo "${1#/sys/fs/cgroup}"; } # FOLDER, as the product names it
# used - MiB of the job on its node, when the manager has taken its memory: it does that ahead of use, but for a sixteenth
used() {
    local now=0 before=-2
    while [ "$now" -gt $((before + 1)) ]; do
        before=$now
        sleep 2
        now=$(($(cat "$folder/memory.current") >> 20))
    done
    echo "$now"
}
limit() { echo $(($1 << 20)) >"$folder/memory.max"; } # MIB: the job's limit there
# begin CMD... - as the user in the background, in a folder of its own; output: $work/out
begin() {
    rm -f "$work"/*
    (cd "$work" && limit=300 sub "$@") >"$work/out" 2>&1 </dev/null &
    pid=$!
}
# awaited FILE - the job has made it
awaited() {
    local end=$((SECONDS + 150 * slow))
    until [ -e "$work/$1" ]; do
        if [ $SECONDS -ge $end ] || ! kill -0 $pid 2>/dev/null; then
            cp "$work/out" "$out"
            not_ok "the_job_comes_to_$1"
            return 1
        fi
        sleep 0.1
    done
}
# over - wait for the job; its output is in $out; sets rc
over() {
    wait $pid
    rc=$?
    cp "$work/out" "$out"
    echo "(exit code $rc)" >>"$out"
}
