#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# More than memory, in jobs whose own memory is less than what they put: all of it is read on both nodes, and the disk has nothing of it while it runs or after any end.
. "$(dirname "$0")/lib.sh"
limit=120
dir=$(sub mktemp -d "$PWD/spill.XXXXXX") || exit 1
trap 'rm -rf "$dir" "$out"' EXIT
mkdir "$dir/disk" && chmod 777 "$dir/disk"
cat >"$dir/ranks.py" <<'PYTHON'
import ddict, ddict.runtime, os, sys, time
rank, n = int(os.environ["SLURM_PROCID"]), int(sys.argv[1])
d = ddict.attach()
def value(i):
    return i.to_bytes(4, "little") * (1 << 18)
for i in range(rank, n, 2):
    d[i] = value(i)
ddict.runtime.barrier()
spilled = sum(s["spill_items"] for s in d.stats)
good = sum(bytes(d.view(i)) == value(i) for i in range(n))
print(f"rank {rank}: {good} good, spilled {spilled > n * 3 // 4}, names {os.listdir('disk')}", flush=True)
ddict.runtime.barrier()
if len(sys.argv) > 2:
    open("there", "w").close()
    time.sleep(100)
PYTHON

if [ "$(stat -f -c %T "$dir/disk")" = tmpfs ]; then echo "the cluster's folder is memory"; exit 77; fi
t "a_job_of_120M_a_node_puts_and_reads_400M" sub sh -c "cd $dir && srun -N2 -n2 --mem=120M --ddict-managers=2 --ddict-mem=32M --ddict-spill=$dir/disk:1G python3 ranks.py 400"
is "each_rank_reads_every_value_whole" "$(grep -c '^rank [01]: 400 good, spilled True, names \[\]$' "$out")" 2
has "the_summary_says_how_much_was_spilled" "in the spill"
clean_after "nothing_is_left_of_the_step"
is "nor_on_the_disk" "$(ls -A "$dir/disk")" ""

t "a_job_is_accepted" sub sh -c "cd $dir && sbatch -N2 -n2 --mem=120M --ddict-managers=2 --ddict-mem=32M --ddict-spill=$dir/disk --ddict-record=none -o job.out --wrap 'srun -n2 python3 ranks.py 60 stay'"
job=$(grep -Eo '[0-9]+$' "$out")
for i in $(seq $((300 * slow))); do [ ! -e "$dir/there" ] || break; sleep 0.2; done
cp "$dir/job.out" "$out"
is "its_ranks_have_read_all" "$(grep -c '60 good' "$dir/job.out")" 2
sub scancel "$job"
clean_after "nothing_is_left_of_it_when_it_was_cancelled"
is "nor_on_the_disk_then" "$(ls -A "$dir/disk")" ""

sub sh -c "cd $dir && srun -N2 -n2 --ddict-mem=32M --ddict-spill=/no/such/folder true" >"$out" 2>&1 </dev/null
is "a_folder_that_is_not_there_is_an_error" "$([ $? != 0 ] && echo yes)" yes
has "that_names_the_folder_and_a_node" "no spill on node .*: /no/such/folder"
clean_after "and_no_task_was_started"
finish
