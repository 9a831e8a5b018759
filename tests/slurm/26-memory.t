#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the managers hold is the job's memory: it is charged to the managers' step, within the job's cgroup, and to no task that reads it in place.
. "$(dirname "$0")/lib.sh"
charged() { # STEP: MiB of it on the first node (cgroup v1, v2). In v2 the job's folder is job_N, since Slurm 26.05 its SLUID; no other job is there.
    local f
    for f in /sys/fs/cgroup/{memory/,}slurm_"${nodes[0]}"/uid_*/job_"$job"/step_"$1"/memory.usage_in_bytes \
        /sys/fs/cgroup/system.slice/"${nodes[0]}"_slurmstepd.scope/*/step_"$1"/memory.current; do
        [ ! -r "$f" ] || echo $(($(cat "$f") >> 20))
    done
}
sub sh -c 'cd; exec sbatch --parsable "$@"' sh -w "${nodes[0]}" -N1 --mem=600M --ddict-managers=1 --ddict-mem=200M --ddict-record=none -o memory.out >"$out" 2>&1 <<'END'
#!/bin/sh
cat >memory.py <<'PYTHON'
import ddict, os, time
d = ddict.attach()
for i in range(100):
    d[i] = bytes(1 << 20)
views = [d.view(i) for i in range(100)]
print(sum(len(bytes(v)) for v in views), flush=True)
end = time.time() + 60
while not os.path.exists("measured") and time.time() < end:
    time.sleep(0.1)
PYTHON
srun -n1 python3 memory.py
END
job=$(grep -Eo '^[0-9]+' "$out")
[ -n "$job" ] || { not_ok "a_job_is_accepted"; finish; }
home=/var/lib/ddict-devcluster/$DEVCLUSTER_ID/home/ddict-test
for i in $(seq 150); do
    grep -q . "$home/memory.out" 2>/dev/null && break
    sleep 0.2
done
is "a_task_has_put_and_read_100_MiB" "$(cat "$home/memory.out")" 104857600
managers=$(charged 0) task=$(charged 1)
if [ -z "$managers" ]; then
    echo "# no cgroup of memory here: nothing to see"
else
    is "they_are_charged_to_the_managers_step" "$([ "${managers:-0}" -ge 100 ] && echo yes || echo "$managers MiB")" yes
    is "and_not_to_the_task_that_reads_them" "$([ "${task:-999}" -lt 60 ] && echo yes || echo "$task MiB")" yes
fi
sub sh -c 'touch ~/measured'
clean_after "nothing_is_left"
sub sh -c 'rm -f ~/memory.out ~/memory.py ~/measured'
finish
