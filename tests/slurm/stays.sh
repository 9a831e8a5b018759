# SPDX-License-Identifier: Apache-2.0
# stays.sh KILL - in an allocation: what `ddict up` leaves on the submit host, what signals to it do, and its end. KILL: yes, kill -9 it before the end.
node=${SLURM_JOB_NODELIST%%[[0-9]*}
sruns() { pgrep -f "^[^ ]*srun --jobid=$SLURM_JOB_ID --nodelist=$node.* --job-name=ddict"; }
echo "job $SLURM_JOB_ID"
x=$(ddict up --mem=64M) && eval "$x" || exit 1
srun=$(sruns)
echo "stays $(echo "$srun" | wc -l) srun, $(pgrep -f "^[^ ]*ddict up .*$DDICT_NAME" | wc -l) ddict"
echo "session $(ps -o sid= -p "$srun" | tr -d ' ' | sed "s/^$srun\$/of its own/"), terminal $(ps -o tty= -p "$srun")"
# since 23.11 srun has eventfd and eventpoll of its own
echo "files $(find "/proc/$srun/fd" -type l -printf '%l\n' | grep -Ev '^(socket|pipe):|^anon_inode:\[event' | sort -u | paste -sd ' ')"
for fd in 0 1 2; do
    mine=$(readlink "/proc/$$/fd/$fd")
    find "/proc/$srun/fd" -type l -lname "${mine//[/\\[}" -printf "holds our $mine\n" | grep -v /dev/null
done
ddict put k v || exit 1
for s in TERM HUP INT INT QUIT PIPE; do kill -s $s "$srun"; sleep 0.02; done
sleep 0.5 # SIGKILL for the step would be a message away
echo "after signals $(ddict get k), $(sruns | wc -l) srun"
[ "${1-}" != yes ] || { kill -s KILL "$srun" && srun -N2 -n2 ddict put --existing k w && echo "after its death $(ddict get k)"; }
ddict down || exit 1
for i in $(seq 100); do
    [ -z "$(squeue -h -s -o %j -j "$SLURM_JOB_ID" | grep ddict)" ] && ! grep -qs '^State:[^Z]*$' "/proc/$srun/status" && break
    sleep 0.1
done
echo "at the end $(squeue -h -s -o %j -j "$SLURM_JOB_ID" | grep -c ddict) steps, $(cat "/proc/$srun/status" 2>/dev/null | grep -c '^State:[^Z]*$') srun"
