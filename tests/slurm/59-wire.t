#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --ddict-wire: values come to the other node as they are, the figures and the record say what protects them, and a site's wire= is the least that users get.
# (What somebody on the network can read or change: tests/local/between.py.)
. "$(dirname "$0")/lib.sh"
home=$PWD
trap 'site_conf_end; rm -f "$out" "$home"/wire.*' EXIT
record() { t "the_record_of_$1" sh -c "cat '$home'/wire.*.jsonl"; rm -f "$home"/wire.*.jsonl; }

for how in encrypt auth; do
    # shellcheck disable=SC2016
    t "a_step_with_$how" sub srun -N2 -n2 --ddict-managers=2 --ddict-mem=96M --ddict-wire=$how --ddict-record="$home/wire.%j.jsonl" sh -c \
        'for i in 0 1 2 3; do yes "$SLURM_PROCID" | head -c 3000000 | ddict put from$SLURM_PROCID.$i -; done
         for n in 0 1; do for i in 0 1 2 3; do ddict get --wait=20 from$n.$i | cksum | sed "s/^/of $n: /"; done; done
         [ $SLURM_PROCID = 0 ] || { ddict put said v; exit; }
         ddict get --wait=20 said >/dev/null && ddict stats && ddict stats --json'
    for n in 0 1; do is "values_of_$n" "$(grep "^of $n: " "$out" | sort | uniq -c | tr -s ' ')" " 8 of $n: $(yes $n | head -c 3000000 | cksum)"; done
    has "stats_say_so" "^ *between nodes: messages by tcp \(wire=$how\)"
    has "figures_say_so" "\"wire\":\"$how\""
    t "the_report_of_$how" sub sh -c "ddict report '$home'/wire.*.jsonl"
    has "tells_it" "^ *between nodes: messages by tcp \(wire=$how\)"
    record "$how"
    has "says_so" "\"event\":\"start\".*\"wire\":\"$how\""
done

sub srun -N2 -n2 --ddict-mem=64M --ddict-wire=tls sh -c 'echo it ran' >"$out" 2>&1 </dev/null
has "a_wrong_word_is_named" '--ddict-wire=tls: want plain, auth or encrypt'
has_not "and_nothing_runs" '^it ran'

site_conf wire=auth
sub srun -N2 -n2 --ddict-mem=64M --ddict-wire=plain sh -c 'echo it ran' >"$out" 2>&1 </dev/null
has "less_than_the_site_s_is_refused" '--ddict-wire=plain: this site wants at least auth'
has_not "before_the_step_starts" '^it ran'
t "who_says_nothing" sub srun -N2 -n2 --ddict-mem=64M --ddict-record="$home/wire.%j.jsonl" ddict put k v
record "his_step"
has "has_the_site_s" '"wire":"auth"'
t "a_batch_script_that_wants_more" sub sh -c "cd '$home' && sbatch -Q -W -N2 --ddict-mem=64M --ddict-wire=encrypt --ddict-record='$home/wire.%j.jsonl' -o wire.out --wrap 'ddict put k v; srun -N2 -n2 ddict get k; ddict stats'
    cat wire.out"
has "gets_it" 'between nodes: messages by tcp \(wire=encrypt\)'
record "the_job"
has "is_of_it" '"wire":"encrypt"'
sub sbatch -N2 --ddict-mem=64M --ddict-wire=plain --wrap true >"$out" 2>&1 </dev/null
has "a_batch_script_that_wants_less_is_not_submitted" 'sbatch: error: ddict: --ddict-wire=plain: this site wants at least auth'
site_conf_end
clean_after "nothing_is_left"
finish
