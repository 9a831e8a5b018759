#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The verbs of `ddict` in salloc's shell on the submit host, which has no managers: they do what they do on a node, with the same exit codes.
. "$(dirname "$0")/lib.sh"
ddict=$(sub sh -c 'command -v ddict')
[ -n "$ddict" ] || { echo "no ddict on the submit host"; exit 77; }

# job SENTENCE SCRIPT - in an allocation that has a dictionary, DDICT_NAME not set
job() { t "$1" sub salloc -Q -N2 --mem=200M bash -c "cd; d=\$(mktemp -d ~/login.XXXXXX); cd \$d; trap 'rm -rf \$d' EXIT; ddict up --mem=64M --record=none >/dev/null || exit 1; unset DDICT_NAME; $2"; }

job "env_names_the_job_s_dictionary" 'eval "$(ddict env)" && test "$DDICT_NAME" = "$(id -u).$SLURM_JOB_ID.job" && srun -N2 -n2 ddict stats >/dev/null'
job "values_pass_in_and_out" 'set -e; ddict put k value; test "$(ddict get k)" = value; head -c 3000000 /dev/urandom >in; ddict put big --file in; ddict get big -o out; cmp in out
    ddict put piped - <in; ddict get piped | cmp - in; ddict put --type int n 17; test "$(ddict get n)" = 17; ddict ls | sort | tr "\n" " "; ddict rm k n; echo "left $(ddict ls | wc -l)"'
has "all_keys_are_listed" "'big' 'k' 'n' 'piped' "
has "rm_removes" 'left 2$'
job "exit_codes_pass" 'ddict get nothing 2>err; test $? = 3 && cat err && ddict put k v && ! ddict put --new k v && ddict get k -o file && ddict get nothing -o file; test $? = 3 && test "$(cat file)" = v && ddict get; test $? = 2'
has "the_error_is_the_verb_s_line" '^ddict get: nothing: '
has_not "srun_adds_nothing" 'srun:'
job "stdin_is_left_to_the_script" 'printf "a\nb\nc\n" | while read k; do ddict put $k 1; done; echo "keys $(ddict ls | wc -l)"'
has "three_keys" 'keys 3'
job "stats_has_all_managers" 'ddict stats; ddict stats --json | python3 -c "import json, sys; print(len(json.load(sys.stdin)[\"managers\"]), \"managers\")"'
has "managers_of_both_nodes" '^2 managers'
job "a_task_finds_it_without_a_variable" 'srun -N2 -n2 --export=PATH,HOME ddict put --existing k v; test $? != 0 && srun -n1 -N1 sh -c "unset DDICT_NAME; ddict put k v" && test "$(ddict get k)" = v'
job "an_interrupt_ends_the_verb" 'timeout -s INT 2 ddict get --wait 60 nothing; test $? = 124; for i in $(seq 200); do test "$(squeue -h -s -j $SLURM_JOB_ID -o %j)" = ddict && exit 0; sleep 0.1; done; squeue -s; exit 1'
job "down_ends_it" 'ddict down && ! ddict env 2>err && cat err'
has "env_says_that_there_is_none" '^ddict env: .*no dictionary'
t "a_job_without_a_dictionary_has_none" sub salloc -Q -N1 sh -c '! ddict env && ! ddict ls'
has "and_says_which_it_would_be" "[0-9]+\.[0-9]+\.job"
t "without_a_job_there_is_none" sub sh -c '! ddict env'
has "and_says_that_no_name_is_set" 'DDICT_NAME is not set'
clean_after "nothing_is_left"
finish
