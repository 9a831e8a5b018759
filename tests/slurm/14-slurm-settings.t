#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Settings and options that only newer releases of Slurm have: contain_spank (24.05), stepmgr (24.05), srun --async (26.05). What this Slurm does not have
# is skipped by name.
. "$(dirname "$(readlink -f "$0")")/lib.sh"
. "$tests/batch.sh"
need_nodes 3
conf=/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/slurm/slurm.conf
cp "$conf" "$conf.before" || exit 1
trap 'settings_end; rm -f "$conf.before" "$out" "$out".*' EXIT
release=$(sub srun --version | tr -dc '0-9.' | awk -F. '{ print $1 * 100 + $2 }')
newer() { [ "$release" -ge "$1" ]; }
all_idle() { [ "$(sub sinfo -h -N -o %T | grep -cx idle)" = ${#nodes[@]} ]; }
tried=' '
settings() { # SED SCRIPT for slurm.conf
    local end=$((SECONDS + 60 * slow)) job
    sed -i "$1" "$conf" && "$devcluster" run -u root -- scontrol reconfigure && sleep 1
    until job=$(sub srun -N${#nodes[@]} -n1 printenv SLURM_JOB_ID 2>/dev/null) && all_idle; do [ "$SECONDS" -lt $end ] || return 1; tried+="$job "; sleep 0.5; done
    tried+="$job "
}
# What Slurm leaves of a job of settings(), which may run while some nodes have PrologFlags=Contain and others have it no more, is not ours.
tried_forget() {
    local cgroup end=$((SECONDS + 15 * slow))
    until [ -z "$(remains)" ] || [ "$SECONDS" -ge $end ]; do sleep 0.5; done
    remains | sed -n 's/^cgroup //p' | sort -r | while read -r cgroup; do
        [[ $cgroup =~ /job_([0-9]+) && $tried = *" ${BASH_REMATCH[1]} "* ]] && echo "# Slurm forgot: $cgroup" && rmdir "$cgroup"
    done
}
settings_end() {
    cmp -s "$conf.before" "$conf" && return
    cat "$conf.before" >"$conf"
    settings ''
}

if newer 2405; then
    # slurmstepd calls the plugin in a process of its own, with descriptors of its own
    t "slurmd_is_told_to_contain_spank" settings 's/^SlurmdParameters=.*/&,contain_spank/'
    b "a_script_ends_with_contain_spank" -N2 --ddict-mem=64M <<'END'
#!/bin/bash
echo "job $SLURM_JOB_ID" && srun -N1 -n1 ddict put k v
END
    is "and_the_managers_srun_hears_of_it" "$(unheard)" 0
    job=$(sed -n 's/^job //p' "$out")
    cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/log/slurmd-${DEVCLUSTER_ID}"n*.log >"$out"
    has "slurmd_s_log_has_its_start" "ddict: dictionary [0-9]+\.$job\.job starts: 2 managers"
    has "and_its_end" "ddict: dictionary [0-9]+\.$job\.job ends: 2 managers on 2 nodes, 64.0 MiB: 1 key"
    clean_after "nothing_is_left_after_a_contained_job"
    settings_end

    t "stepmgr_is_enabled" settings '$a SlurmctldParameters=enable_stepmgr\nPrologFlags=Contain'
    t "a_step_beside_another_one_has_its_dictionary_with_stepmgr" sub salloc -Q -N3 --stepmgr --mem=400M bash -c "
        srun -N1 -n1 -w ${nodes[0]} --mem=50M sh -c 'touch other_step; sleep 30' & # squeue does not see the steps of a stepmgr
        until [ -e other_step ]; do sleep 0.1; done
        rm other_step
        srun -N2 -n2 -w ${nodes[1]},${nodes[2]} --mem=200M --ddict-mem=64M sh -c 'ddict put \$SLURM_PROCID v && ddict get --wait 20 \$((1 - SLURM_PROCID)) && echo'
        rc=\$?; scancel \$SLURM_JOB_ID.0; wait; exit \$rc"
    is "and_both_tasks_use_it" "$(grep -cx v "$out")" 2
    has "on_its_own_nodes" 'ddict: 2 managers on 2 nodes, 64.0 MiB: 2 keys'
    if newer 2605; then # it needs stepmgr
        t "srun_async_is_refused_by_name" sub salloc -Q -N1 --stepmgr --mem=100M sh -c '! srun --async -N1 -n1 --ddict-mem=32M true'
        has "with_a_reason" 'ddict: srun --async does not wait for its step'
        t "and_works_without_a_dictionary" sub salloc -Q -N1 --stepmgr --mem=100M srun --async -N1 -n1 true
    else
        echo "skipped srun --async: this Slurm is older than 26.05"
    fi
    tried_forget
    clean_after "nothing_is_left_after_jobs_with_stepmgr"
    settings_end
    tried_forget
else
    echo "skipped contain_spank, stepmgr and srun --async: this Slurm is older than 24.05"
fi
clean_after "nothing_is_left"
finish
