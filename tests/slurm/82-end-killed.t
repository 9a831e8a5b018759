#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# When a part of a dictionary is killed, every task that uses it gets an error in time, and one line says what happened; of a manager that is killed and
# started again no task notices anything.
slots=8
. "$(dirname "$0")/ends.sh"
loop="exec python3 $tests/ends.py work"
here="-w ${nodes[0]},${nodes[1]}"
lost() { # NAME ACT LINE WORDS...
    local name=$1 act=$2 line=$3
    shift 3
    row "$name" step plain=no opts="$here" task="$loop" rc=3 state='FAILED 3:0' within=20 errors=2 act="$act" line="$line" "$@"
}
lost "ddictd of the first node killed -9" 'kill9 $(ours 1 ddictd)' "ddict: node ${nodes[0]} is lost: its ddictd ended$"
lost "ddictd of another node killed -9" 'kill9 $(ours 2 ddictd)' "ddict: node ${nodes[1]} is lost: its ddictd ended$"
for_good=vars=DDICT_RESTARTS=0 # a manager that dies is not started again
lost "a manager of the first node killed -9" 'kill9 $(ours 1 manager)' "ddict: manager 0 on node ${nodes[0]} died \(signal 9\)$" $for_good
lost "a manager of another node killed -9" 'kill9 $(ours 2 manager)' "ddict: manager 1 on node ${nodes[1]} died \(signal 9\)$" $for_good
back() { # NAME SCOPE NODE WORDS...
    local name=$1 scope=$2 node=$3
    shift 3
    row "$name" $scope plain=no opts="$here" task="$loop 8" rc=0 state='COMPLETED 0:0' within=25 act="kill9 \$(ours $node manager)" restarts=1 said='^rank 0: no error' \
        line="ddict: manager $((node - 1)) on node ${nodes[node - 1]} died \(signal 9\) and was started again within [0-9]+ ms$" not='rank [01]: an error|LostError' "$@"
}
back "a manager of the first node killed -9 comes back" step 1
back "a manager of another node killed -9 comes back" step 2
back "a manager killed -9 comes back" batch 2 maybe=yes
lost "the managers' srun killed -9" 'kill9 $(hidden_srun)' "ddict: the srun of the managers ended early: killed by signal 9$" record=no
lost "ddict up killed -9" 'kill9 $(hidden_up)' "ddict: .ddict up. was killed; the dictionary is gone$" said='an error .*: the dictionary has ended: who started it went without a word'
# Nobody removes the cgroups of a step whose slurmstepd is gone. v2: the job's folder has its number or its SLUID.
orphans() { # PATH: ddictd's own with v2, FOLDER/step_1/user/task_0
    (sleep $((20 * slow)); find /sys/fs/cgroup/*/slurm_"$DEVCLUSTER_ID"n* -depth -type d \( -path "*/job_$job" -o -path "*/job_$job/*" \) -exec rmdir {} \;
        rmdir /sys/fs/cgroup/*/slurm_"$DEVCLUSTER_ID"n*/uid_*
        [[ $1 != */step_* ]] || find "/sys/fs/cgroup${1%%/step_*}" -depth -type d -exec rmdir {} \;) >/dev/null 2>&1 &
}
stepd_kill() { # of the managers on the first node
    local p=$(ours 1 ddictd) path
    path=$(sed -n 's/^0:://p' "/proc/$p/cgroup")
    kill9 "$(ps -o ppid= -p "$p" | tr -d ' ')"
    orphans "$path"
}
lost "slurmstepd of the managers killed -9" stepd_kill "ddict: the managers ended early: .*$" within=60 record=no said='an error .*: the dictionary has ended: who started it went without a word'
# Slurm signals each node by itself, and only the first node's slurmstepd says that the step was cancelled, if its task is still there. In user-mode Linux it
# can be half a second behind: then ddictd has seen that the other node is lost and has ended in order.
cancelled="the managers ended early: Slurm.s step [0-9]+\.1 was cancelled"
[ $slow = 1 ] || cancelled="($cancelled|node ${nodes[1]} is lost: its ddictd ended)"
lost "scancel of the managers' step" 't0=$(now_ms); sub scancel $job.1' "ddict: $cancelled$" record=no
# In a job the script goes on; what happened is in its record and in the tasks' errors.
lost_job() { # NAME ACT WORDS...
    local name=$1 act=$2
    shift 2
    row "$name" batch plain=no opts="$here" task="$loop" rc=3 state='FAILED 3:0' within=20 errors=2 act="$act" "$@"
}
lost_job "ddictd of the first node killed -9" 'kill9 $(ours 1 ddictd)' said='^rank 1: .*(node '"${nodes[0]}"' is lost|manager 0 on '"${nodes[0]}"' (can|is lost))'
lost_job "ddictd of another node killed -9" 'kill9 $(ours 2 ddictd)' said='^rank 0: .*(node '"${nodes[1]}"' is lost|manager 1 on '"${nodes[1]}"' (can|is lost))'
lost_job "a manager killed -9" 'kill9 $(ours 2 manager)' said='^rank 1: .*manager 1 on .*'"${nodes[1]}" $for_good
lost_job "scancel of the managers' step" 'sub scancel $(step_of managers)' record=no
inner_begun() { [ "$(grep -cs '^begun ' "$ends/inner")" = 4 ]; } # each task says it, and its program when it has attached
row "srun killed -9" inner plain=no opts="$here" task="exec >>$ends/inner 2>&1; begun; $loop 30" tasks=0 rc=137 state='FAILED 137:0' within=20 \
    act='until_true 30 inner_begun; sleep 1; kill9 $(user_sruns)' script=$'srun -N2 -n2 sh $task; rc=$?\nsleep 8; exit $rc'
rows_end "nothing_is_left_of_all_of_them"
is "tasks_whose_srun_is_gone_get_an_error" "$(grep -Ec "^rank [01]: an error" "$ends/inner")" 2
ends_finish
