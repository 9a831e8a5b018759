#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sbatch: one dictionary for the script and all its steps, ready before the first line of the script, gone with the job.
. "$(dirname "$0")/lib.sh"
. "$tests/batch.sh"
ddict=$(sub sh -c 'command -v ddict')

states=PD,R,CG
b "a_job_of_several_steps_has_one_dictionary" <<END
#!/bin/bash
#SBATCH -N2 --ddict-managers=4
#SBATCH --ddict-mem=64M
ls -l /proc/\$\$/fd >inherited.fds; ps -o comm= --ppid \$\$ >inherited.ps
echo "script \$DDICT_NAME; pipes \$(grep -c pipe: inherited.fds); children \$(cat inherited.ps)"; rm inherited.*
$ddict put first 1
python3 -c 'import ddict; d = ddict.attach(); d["python"] = 7'
srun -N2 -n2 sh $tests/both.sh $ddict && echo "two nodes"
srun -N1 -n1 sh -c 'echo "task \$DDICT_NAME \$($ddict get first)"'
for i in 1 2 3; do srun --overlap -N1 -n1 $ddict put at-once-\$i \$i & done
wait
srun -N1 -n1 python3 -c 'import ddict; d = ddict.attach(); print("keys", sorted(map(str, d.keys())))'
echo "steps \$(squeue -h -s -j \$SLURM_JOB_ID -o %j | grep -c ddict)"
srun -N1 -n1 env | grep -c '^SLURM_DDICT_' | sed 's/^/left /'
END
has "the_script_has_its_name_and_inherits_neither_pipe_nor_child" '^script [0-9]+\.[0-9]+\.job; pipes 0; children ps$'
has "both_nodes_serve" '^two nodes$'
has "a_step_of_one_node_sees_it" '^task [0-9]+\.[0-9]+\.job 1$'
has "sruns_at_once_and_the_script_s_python_too" "keys .*at-once-1.*at-once-2.*at-once-3.*both0.*both1.*first.*python"
has "there_is_one_step_of_managers" '^steps 1$'
has "the_summary_is_in_the_job_s_file" '^ddict: 4 managers on 2 nodes, 64.0 MiB: 7 keys'
has "the_request_is_for_the_script_alone" '^left 0$'
name=$(sed -n 's/^script \([^;]*\);.*/\1/p' "$out")
cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/log/slurmd-${DEVCLUSTER_ID}"n*.log >"$out"
has "the_administrator_reads_of_its_start_in_slurmd_s_log" "ddict: dictionary $name starts: 4 managers, 67108864 bytes"
has "and_of_its_end" "ddict: dictionary $name ends: 4 managers on 2 nodes, 64.0 MiB: 7 keys"
clean_after "nothing_is_left_after_a_job"

# slurmstepd of the script waits for the managers' srun, which hears of their end.
b "a_script_ends" -N2 --ddict-mem=64M <<END
#!/bin/bash
echo "job \$SLURM_JOB_ID" && srun -N1 -n1 $ddict put --new k v || exit 3
END
is "and_the_managers_srun_hears_of_it" "$(unheard)" 0
b "a_script_ends_whose_managers_have_nobody_to_tell" -N2 --ddict-mem=64M <<'END'
#!/bin/bash
echo "job $SLURM_JOB_ID"
kill -s KILL $(pgrep -f "^[^ ]*srun --jobid=$SLURM_JOB_ID --nodelist=${SLURM_JOB_NODELIST%%[[0-9]*}.* --job-name=ddict")
END
is "and_the_job_ends_all_the_same" "$(unheard)" 2
states=PD,R

# What sbatch sends along of the environment does not matter.
for export in NONE NIL X=1 ALL,X=1; do
    batch -N1 -n1 --mem=200M --ddict-mem=32M --export=$export >"$out.$export" 2>&1 <<END &
#!/bin/bash
PATH=/usr/bin:/bin
$ddict put k \$DDICT_NAME && srun -N1 -n1 $ddict get k && echo
END
done
wait
for export in NONE NIL X=1 ALL,X=1; do
    cp "$out.$export" "$out"
    has "a_step_reads_what_the_script_wrote_with_export_$export" '^[0-9]+\.[0-9]+\.job$'
done
t "the_environment_form_is_for_sbatch_too" sub env DDICT_MEM=32M DDICT_MANAGERS=1 sh -c 'cd; id=$(sbatch --parsable -N1 -o e.out --wrap "echo name \$DDICT_NAME mem \${DDICT_MEM-none}")
    while squeue -h -j $id | grep -q .; do sleep 0.2; done; cat e.out; rm -f e.out'
has "and_does_not_reach_the_script" '^name [0-9]+\.[0-9]+\.job mem none$'

b "array_tasks_have_one_each" -N1 --array=1-2 --ddict-mem=32M <<END
#!/bin/bash
srun -N1 -n1 $ddict put --new k "\$SLURM_ARRAY_TASK_ID \$DDICT_NAME" && srun -N1 -n1 $ddict get k && echo
END
is "two_names" "$(grep -Ec '^[12] [0-9]+\.[0-9]+\.job$' "$out") $(sed -n 's/^[12] //p' "$out" | sort -u | grep -c .)" "2 2"

states=PD,R,CG
b "a_requeued_job_has_a_fresh_one" -N1 --requeue --ddict-mem=32M <<END
#!/bin/bash
srun -N1 -n1 $ddict put --new k "\${SLURM_RESTART_COUNT-0}" && srun -N1 -n1 $ddict get k && echo || exit 3
[ "\${SLURM_RESTART_COUNT-0}" != 0 ] || { scontrol requeue \$SLURM_JOB_ID; sleep 30; }
END
has "it_ran_twice" '^1$'
states=PD,R
clean_after "nothing_is_left_after_all_of_them"
finish
