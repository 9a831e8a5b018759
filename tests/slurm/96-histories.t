#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Histories over Slurm (histories.py): what the tasks of a step were told has an explanation, whatever dies of their dictionary, nobody waits for long, and nothing is left. Two rounds, some 40 s; or those of
# HISTORY_ROUNDS, each of HISTORY_ROUND_SECONDS (6) before its last loss (make history-slurm).
. "$(dirname "$0")/lib.sh"
need_nodes 3
export DEVCLUSTER=$devcluster
work=$(mktemp -d /var/tmp/ddict-histories.XXXXXX) || exit 1
[ -n "${HISTORY_KEEP-}" ] || trap 'rm -rf "$work" "$out"' EXIT
chmod 711 "$work"
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
cc -O1 -I"$prefix/include" -o "$work/worker" "$tests/../history/worker.c" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lddict >"$out" 2>&1 || { not_ok "the_worker_can_be_built"; finish; }
# Nobody removes the cgroups of a step whose slurmstepd is gone.
orphans() { # JOB
    find /sys/fs/cgroup -depth -type d -path "*${DEVCLUSTER_ID}n*" \( -path "*/job_$1" -o -path "*/job_$1/*" \) -exec rmdir {} \; 2>/dev/null
    rmdir /sys/fs/cgroup/*/slurm_"$DEVCLUSTER_ID"n*/uid_* 2>/dev/null
}
read -ra rounds <<<"${HISTORY_ROUNDS-node srun}"
n=0
for round in "${rounds[@]}"; do
    n=$((n + 1)) folder=$work/$n
    mkdir "$folder" && chmod 1777 "$folder" && ln "$work/worker" "$folder/worker" || exit 1
    t "all_answers_have_an_explanation_${n}_$round" timeout --kill-after=40 $(((150 + ${HISTORY_ROUND_SECONDS-6}) * slow)) python3 "$tests/histories.py" "$round" "${HISTORY_ROUND_SECONDS-6}" "$folder"
    sed 's/^/# /' "$out" | grep -v '# #' | tail -n 3
    job=$(sed -n 's/^job //p' "$out")
    [ "$round" != slurmstepd ] || { sleep $((20 * slow)); orphans "$job"; }
    rm -f "ddict-$job.jsonl"
    patience=60 clean_after "nothing_is_left_${n}_$round"
done
finish
