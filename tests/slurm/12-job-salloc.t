#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# salloc: the first srun starts the job's dictionary, the others find it, from wherever they come.
. "$(dirname "$0")/lib.sh"
ddict=$(sub sh -c 'command -v ddict')
dd="--ddict-managers=2 --ddict-mem=64M"
# the steps of starts that found a dictionary end soon
steps='n=x; for i in $(seq 60); do n=$(squeue -h -s -j $SLURM_JOB_ID -o %j | grep -c ddict); [ $n != 1 ] || break; sleep 0.2; done; echo "steps $n"'

t "sruns_one_after_another_share_it" sub salloc -Q -N2 $dd sh -c "srun -N1 -n1 $ddict put k v && srun -N2 -n2 sh $tests/both.sh $ddict && srun -N1 -n1 $ddict get k && echo &&
    $steps; srun -N1 -n1 sh -c 'echo name \$DDICT_NAME'"
has "the_third_reads_what_the_first_wrote" '^v$'
has "there_is_one_step_of_managers" '^steps 1$'
has "tasks_have_the_job_s_name" '^name [0-9]+\.[0-9]+\.job$'
clean_after "nothing_is_left_after_sruns_one_after_another"

t "salloc_without_an_srun_starts_nothing" sub salloc -Q -N2 $dd sh -c 'test -z "$(squeue -h -s -j $SLURM_JOB_ID)"'
t "before_it_no_verb_finds_one" sub salloc -Q -N2 $dd sh -c 'ddict ls; ddict put k v; ddict down; ddict load /etc/hostname; python3 -c "import ddict; ddict.attach()"; srun -n1 true; ddict put k v && ddict get k'
# The load says it on both nodes, or on one: Slurm ends its other task when the first has failed.
is "and_says_what_starts_it" "$(grep -o '^[a-z]*[ .][A-Za-z]*: no dictionary: job [0-9]*.s starts with its first srun (srun -n1 true will do)' "$out" | sort -u | wc -l)" 5
has "then_they_find_it" '^v$'
t "a_job_without_one" sub salloc -Q -N1 sh -c 'ddict ls; test $? = 1'
has_not "is_told_nothing_of_the_kind" 'first srun'

# Four on the submit host, four on a node of the job, none of them with a dictionary to find.
sub salloc -Q -N2 $dd sh -c 'env -0 | grep -z "^SLURM_" >~/job.env; mv ~/job.env ~/env; while [ ! -e ~/go ]; do sleep 0.05; done
    for i in 1 2 3 4; do srun --overlap -N2 -n2 '"$ddict"' put here-$i-$i v & done; wait; touch ~/here
    while [ ! -e ~/there ]; do sleep 0.05; done; srun -N1 -n1 python3 -c "import ddict; print(\"keys\", len(ddict.attach()))"
    '"$steps" >"$out" 2>&1 </dev/null &
pid=$!
home=$(sub sh -c 'echo ~')
for i in $(seq 200); do [ -e "$home/env" ] && break; sleep 0.1; done
first=$(tr '\0' '\n' <"$home/env" | sed -n 's/^SLURM_JOB_NODELIST=//p' | sed 's/\[\([0-9]*\).*/\1/; s/,.*//')
"$devcluster" exec "$first" -- setpriv --reuid ddict-test --regid ddict-test --init-groups xargs -0 -a "$home/env" sh -c "export \"\$@\"; cd /; touch $home/go
    for i in 1 2 3 4; do srun --overlap -N1 -n1 $ddict put there-\$i v & done; wait; touch $home/there" x >"$out.there" 2>&1
wait $pid
is "eight_sruns_at_once_end_well" "$?" 0
cat "$out.there" >>"$out"
has "eight_sruns_from_two_hosts_share_one_dictionary" '^keys 8$'
has "they_started_one" '^steps 1$'
rm -f "$home/env" "$home/go" "$home/here" "$home/there" "$out.there"
clean_after "nothing_is_left_after_eight_at_once"

t "a_step_of_its_own" sub salloc -Q -N1 $dd sh -c "srun $ddict put k job; srun -n1 --ddict-scope=step $ddict put --new k step; srun -n1 $ddict get k; echo"
has "the_job_s_is_not_touched" '^job$'
t "scope_step_gives_each_srun_its_own" sub salloc -Q -N1 $dd --ddict-scope=step sh -c "srun -n1 $ddict put --new k v && srun -n1 $ddict put --new k v"
t "a_program_started_by_a_task_uses_it_too" sub salloc -Q -N1 $dd srun -n1 sh -c 'n=$DDICT_NAME; srun --overlap -n1 sh -c "test \"\$DDICT_NAME\" = $n"'
clean_after "nothing_is_left_after_scopes"

# salloc that starts its shell on the first node, with a configuration of its own.
conf=$home/interactive.conf
sed '/^LaunchParameters/d' "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/slurm/slurm.conf" >"$conf"
printf '%s\n' 'LaunchParameters=use_interactive_step' 'InteractiveStepOptions="--interactive --preserve-env /bin/bash"' 'DebugFlags=NO_CONF_HASH' >>"$conf"
t "an_interactive_step_has_the_dictionary" sub sh -c "SLURM_CONF=$conf salloc -Q -N2 $dd <<'END'
echo \"shell \$(hostname) \$DDICT_NAME\"
$ddict put k v
srun --overlap -N2 -n2 sh $tests/both.sh $ddict </dev/null
srun --overlap -N1 -n1 $ddict get k </dev/null
echo
$steps
END"
has "its_shell_is_on_a_node_and_knows_the_name" "^shell ${DEVCLUSTER_ID}n[0-9]+ [0-9]+\.[0-9]+\.job\$"
has "its_sruns_read_what_the_shell_wrote" '^v$'
has "all_of_it_is_one_dictionary" '^steps 1$'
t "an_interactive_step_without_one_is_as_ever" sub sh -c "echo 'echo \"name \${DDICT_NAME-none}\"' | SLURM_CONF=$conf salloc -Q -N1"
has "it_has_no_name" '^name none$'
t "an_interactive_step_with_scope_step" sub sh -c "SLURM_CONF=$conf salloc -Q -N1 $dd --ddict-scope=step <<'END'
echo \"shell \${DDICT_NAME-none}\"
srun --overlap -N1 -n1 sh -c 'echo \"srun \$DDICT_NAME\"' </dev/null
END"
has "its_shell_has_none" '^shell none$'
has "its_sruns_have_their_own" '^srun [0-9]+\.[0-9]+\.[0-9]+$'
rm -f "$conf"
clean_after "nothing_is_left"
finish
