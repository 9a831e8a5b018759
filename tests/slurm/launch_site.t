#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ddict.conf on a cluster: defaults and limits for the command and, where it is installed, for the plugin; errors name file and line. And a start
# that is killed in the middle does not hinder the next one.
. "$(dirname "$0")/lib.sh"
ddict=$(sub sh -c 'command -v ddict')
[ -n "$ddict" ] || { echo "no ddict on the submit host"; exit 77; }
conf=${ddict%/bin/ddict}/etc/ddict.conf
trap 'site_conf_end; rm -f "$out"' EXIT
sub() { timeout --foreground --kill-after=5 $((${limit-60} * slow)) "$devcluster" run -- env DDICT_RECORD=none "$@"; }
up="ddict up --plugin"

site_conf "# ours" "managers=3" "mem=25%"
t "defaults_are_the_site_s" sub salloc -Q -N2 --mem=120M $up
has "three_managers_and_a_quarter" 'managers=3 nodes=2 mem=62914560$'
t "what_the_user_says_wins" sub salloc -Q -N2 --mem=120M $up --managers=2 --mem=8M
has "two_managers_and_8_MiB" 'managers=2 nodes=2 mem=8388608$'

site_conf "max_managers=4" "max_mem=64M" "max_mem_share=50%"
t "the_default_memory_obeys_the_limit" sub salloc -Q -N1 --mem=300M $up
has "64_MiB" 'mem=67108864$'
t "too_many_managers_are_refused" sub salloc -Q -N1 sh -c '! ddict up --managers=5'
has "with_both_figures" 'managers=5: at most 4 on this cluster'
t "too_much_memory_is_refused" sub salloc -Q -N1 sh -c '! ddict run --mem=65M -- echo THE COMMAND RAN'
has "with_both_sizes" 'mem of 65.0 MiB: at most 64.0 MiB on this cluster'
t "too_large_a_share_is_refused" sub salloc -Q -N1 --mem=100M sh -c '! ddict up --mem=60M'
has "with_the_share" 'mem of 60.0 MiB is 60.0 MiB on node .*, where the job has 100.0 MiB: on this cluster at most 50% of that, 50.0 MiB'
if sub srun --help 2>/dev/null | grep -q ddict-mem; then
    t "srun_is_judged_by_the_same_file" sub sh -c '! srun -N1 --ddict-mem=65M echo THE TASK RAN'
    has "and_says_it_of_its_own_option" 'ddict-mem.*65.*at most 64'
fi

site_conf "drain=1" "" "wrong=1"
t "an_unknown_word_ends_a_start" sub salloc -Q -N1 sh -c '! ddict up --mem=64M'
has "with_file_and_line" "^ddict up: $conf line 3: unknown word 'wrong=1'"
if sub srun --help 2>/dev/null | grep -q ddict-mem; then
    t "and_an_srun_that_asks" sub sh -c '! srun -N1 --ddict-mem=64M echo THE TASK RAN'
    has "with_the_same_words" "$conf line 3: unknown word 'wrong=1'"
    t "an_srun_that_asks_for_nothing_runs" sub srun -N1 true
fi

site_conf "ports=50100-50199" "record_dir=/var/tmp/no-such-folder/%u"
t "ports_are_the_site_s" sub salloc -Q -N2 sh -c 'unset DDICT_RECORD; ddict up --mem=64M --plugin; srun -N2 -n2 ss -tlnpH'
# for each node its ddictd's and its manager's; PMIx has one of its own, which we do not choose
is "all_listeners_are_in_the_range" "$(grep -c ':501[0-9][0-9] .*ddictd' "$out")" 4
t "a_record_that_cannot_be_written_is_a_warning" sub salloc -Q -N1 sh -c 'unset DDICT_RECORD; ddict run --mem=64M -- echo the command ran'
has "that_names_it" 'ddict run: .*/var/tmp/no-such-folder/[a-z-]*/ddict-[0-9]+\.jsonl'
has "and_the_command_runs" '^the command ran'
site_conf_end

# kill -9 of SRUN or UP while the managers get ready
killed() { # SENTENCE WHOM SECONDS: so long after its step is there
    t "$1" sub salloc -Q -N2 bash -c "DDICT_TEST_READY_MS=2000 ddict up --plugin --mem=64M & up=\$!
        for i in \$(seq 800); do srun=\$(pgrep -P \$up -x srun) && test -n \"\$(squeue -h -s -j \$SLURM_JOB_ID)\" && break; sleep 0.05; done
        sleep $3; kill -9 \$$2; wait \$up; ddict up --plugin --mem=64M && ddict put k v && sleep 2 && ddict get k"
    has "${1}_and_the_next_one_is_there" '^ddict1 (ready|exists) '
}
killed "a_start_whose_ddict_is_killed" up 0
killed "a_start_that_is_wired_up_and_whose_ddict_is_killed" up 1
killed "a_start_whose_srun_is_killed" srun 0
clean_after "nothing_is_left"
finish
