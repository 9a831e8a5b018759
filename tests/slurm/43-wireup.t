#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How the managers of several nodes find each other: through srun (the default) or through Slurm's PMIx, as the site or the user says. The same is
# asked of each way; the record says which it was.
. "$(dirname "$0")/lib.sh"
need_nodes 3
home=$PWD
undo=''
trap 'eval "$undo"; site_conf_end; rm -f "$out" "$home"/wireup.*' EXIT
plugins=$(dirname "$(find /usr/lib* /usr/local/lib* -name auth_munge.so 2>/dev/null | head -n 1)")

# the_same MPI WIREUP - a step's dictionary, two at once, a job's, and by hand; a node that cannot take part; nothing remains
the_same() {
    local how=$1 wireup=$2
    site_conf "mpi=$how"
    t "${how}_a_steps_dictionary" sub srun -N3 -n6 --ntasks-per-node=2 --ddict-managers=6 --ddict-mem=96M --ddict-record="$home/wireup.%j" sh -c \
        'ddict put from$SLURM_PROCID $SLURM_PROCID && for i in 0 1 2 3 4 5; do ddict get --wait=20 from$i; echo; done'
    is "${how}_every_task_reads_all" "$(grep -cx '[0-5]' "$out")" 36
    t "${how}_the_record_of_it" sh -c "grep -h '\"event\":\"start\"' '$home'/wireup.*"
    has "${how}_is_$wireup" "\"wireup\":\"$wireup\""
    rm -f "$home"/wireup.*
    # shellcheck disable=SC2016
    t "${how}_steps_beside_each_other" sub salloc -Q -N3 sh -c 'for i in 1 2 3; do
        srun --overlap -N3 -n3 --ddict-mem=48M --ddict-scope=step --ddict-record=none ddict put k$i v & all="$all $!"; done; for p in $all; do wait $p || exit 1; done'
    t "${how}_a_jobs_dictionary" sub salloc -Q -N3 --ddict-mem=96M --ddict-record=none sh -c 'srun -n3 ddict put k v & srun -n1 -N1 --overlap ddict get --wait=20 k; wait $!'
    # shellcheck disable=SC2016
    t "${how}_by_hand" sub salloc -Q -N3 sh -c 'eval $(ddict up --mem=96M --record=none) && srun -n3 ddict put k v && ddict down'
    t "${how}_ddict_run" sub salloc -Q -N3 ddict run --mem=96M --record=none -- srun -n3 ddict put k v
    # The name is taken on one node: that node's card has the error.
    # shellcheck disable=SC2016
    sub salloc -Q -N3 sh -c 'n=$(id -u).other; (srun -N1 -n1 -w '"${nodes[1]}"' --overlap ddict run --local --name=$n --mem=16M -- sh -c "touch wireup.on; exec sleep 30") & p=$!
        while [ ! -e wireup.on ]; do sleep 0.05; done
        ddict run --name=$n --mem=96M --record=none -- echo it ran; echo rc=$?; kill $p; wait' >"$out" 2>&1 </dev/null
    has "${how}_an_error_of_one_node_is_said" "^ddict run: .*a dictionary [0-9]*.other is on node ${nodes[1]} already\$"
    has "${how}_and_nothing_runs" '^rc=1$'
    rm -f wireup.on
    # A slurmstepd whose srun is gone may take a minute on a busy machine before it gives up telling that its task ended.
    patience=100 clean_after "${how}_leaves_nothing"
}
the_same auto stdio
if has_pmix; then the_same pmix pmix; else echo "skipped PMIx: Slurm has no such plugin here"; fi
site_conf_end

# A Slurm without a plugin for PMIx needs no word.
mkdir "$home/wireup.plugins" && cp -a "$plugins"/. "$home/wireup.plugins" && rm -f "$home"/wireup.plugins/mpi_pmix*
for host in ctl "${nodes[@]}"; do
    "$devcluster" exec "$host" -- mount --bind "$home/wireup.plugins" "$plugins" && undo+="\"$devcluster\" exec $host -- umount '$plugins';"
done
undo+="rm -rf '$home/wireup.plugins';"
t "this_Slurm_has_no_pmix" sub srun --mpi=list
has_not "none_in_its_list" 'pmix'
t "a_step_without_pmix" sub srun -N3 -n3 --ddict-mem=48M --ddict-record=none ddict put k v
t "a_batch_job_without_pmix" sub sh -c 'cd; printf "#!/bin/sh\nsrun -n3 ddict put a b && echo fine\n" >wireup.sh
    sbatch -Q -W -N3 --ddict-mem=48M --ddict-record=none -o wireup.out wireup.sh; cat wireup.out'
has "the_batch_script_ran" '^fine$'
t "by_hand_without_pmix" sub salloc -Q -N2 ddict run --mem=64M --record=none -- srun -n2 ddict put k v
sub srun -N2 -n2 --ddict-mem=48M --ddict-record=none --mpi=none sh -c true >/dev/null 2>&1
site_conf mpi=pmix
sub srun -N2 -n2 --ddict-mem=48M --ddict-record=none sh -c 'echo it ran' >"$out" 2>&1 </dev/null
has "a_site_that_asks_for_pmix_is_told" 'did not start: .*mpi/pmix'
has_not "and_no_task_runs" 'it ran'
is "in_one_line" "$(grep -c . "$out")" 1
site_conf_end
clean_after "nothing_is_left_without_pmix"
finish
