#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs for Dragon, as its documentation writes them, with other import lines: they run under plain sbatch and srun, on two nodes.
. "$(dirname "$0")/lib.sh"
limit=150
home=$PWD
trap 'rm -f "$out" "$home"/dragon_*' EXIT
for program in words pi top one_node; do
    cp "$tests/dragon_$program.py" "$home" && chmod 644 "$home/dragon_$program.py"
done

# batch SENTENCE PROGRAM - a batch job of two nodes; what it said is in $out
batch() {
    rm -f "$home/dragon_$2.out" "$home/dragon_pi.log"
    printf '#!/bin/sh\npython3 dragon_%s.py\n' "$2" >"$home/dragon_$2.sh"
    t "$1" sub sbatch -Q --wait -N2 --overcommit -o "$home/dragon_$2.out" "$home/dragon_$2.sh"
    cat "$home/dragon_$2.out" >>"$out"
}

words() {
    has "$1_is_on_both_nodes" '^managers 4 on 2 keys [0-9]+ [0-9]+$'
    is "$1_counts_each_key_once" "$(sed -n 's/^managers.*keys \(.*\) \(.*\)/\1/p' "$out")" "$(sed -n 's/^managers.*keys \(.*\) \(.*\)/\2/p' "$out")"
    has "$1_has_processes_that_end_well" '^codes \[0, 0, 0, 0\]$'
    has "$1_counts_together" "^counts \{'fox': 2, 'the': 3\}\$"
    has "$1_has_processes_on_both_nodes" '^hosts 2 local True$'
    has "$1_attaches" '^attached 2$'
    has "$1_has_a_pool_on_both_nodes" '^pool 20540 2$'
    has_not "$1_ends_without_a_complaint" 'error|CANCELLED|Traceback'
}
batch words_run_by_sbatch words
words a_batch_script
clean_after "nothing_is_left_of_words"
t "words_run_by_srun" sub salloc -Q -N2 srun -N1 -n1 --overlap python3 dragon_words.py
words a_step
clean_after "nothing_is_left_of_the_step"

batch pi_runs pi
has "pi_is_found" '^pi 3\.1[0-9]$'
has "its_workers_are_on_both_nodes" '^workers 4 hosts 2$'
clean_after "nothing_is_left_of_pi"

batch a_filter_runs top
has "it_finds_the_best_of_all" '^best True of 100[01]$'
is "each_node_has_looked" "$(grep -c '^screened [01]$' "$out")" 2
has "notes_lie_on_their_managers" '^notes \[0, 1\]$'
has "policies_name_the_nodes" '^policies 2$'
clean_after "nothing_is_left_of_the_filter"

batch one_node_has_it one_node
has "another_node_reads_it" '^code 0$'
has "though_it_has_no_manager" '^read on the other True \[\] True$'
has "it_has_the_managers_that_were_asked_for" '^managers \[0, 1\] 1$'
has "and_they_share_the_keys" '^which \{0, 1\}$'
has "an_exit_code_comes_back" '^failed with 7 1$'
has "a_process_elsewhere_is_killed" '^killed True$'
has "the_other_node_says_what_it_has" '^figures True True \[\]$'
has "a_group_starts_its_process_there_again" '^restarted True \[9, 9\] 3$'
has "more_nodes_than_there_are" '^refused: n_nodes=3: there are 2 nodes here'
clean_after "nothing_is_left_of_one_node"
finish
