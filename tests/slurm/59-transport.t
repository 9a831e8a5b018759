#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Messages between nodes by libfabric, here on its tcp provider: a step asks for it, the tasks read each other's values, what carries them is said. What is
# not there is an error before the tasks start.
. "$(dirname "$0")/lib.sh"
need_nodes 3
home=$PWD
trap 'site_conf_end; rm -f "$out" "$home"/transport.*' EXIT
sub srun -N1 -n1 ddict run --local --transport=ofi:tcp --record=none -- true >"$out" 2>&1 </dev/null
grep -q "this build has no libfabric\|libfabric cannot be opened" "$out" && { sed 's/^/# /' "$out"; exit 77; }

# shellcheck disable=SC2016
t "a_step_by_libfabric" sub srun -N3 -n6 --ntasks-per-node=2 --ddict-managers=6 --ddict-mem=192M --ddict-transport=ofi:tcp --ddict-record="$home/transport.%j" sh -c \
    'head -c 3000000 /dev/zero | tr "\0" "$SLURM_PROCID" | ddict put from$SLURM_PROCID - && for i in 0 1 2 3 4 5; do ddict get --wait=20 from$i | cksum; done
     [ $SLURM_PROCID != 0 ] || ddict stats'
is "every_task_reads_the_same" "$(grep -c ' 3000000$' "$out") $(grep ' 3000000$' "$out" | sort -u | wc -l)" "36 6"
has "stats_say_what_carries_it" 'between nodes: messages by ofi:tcp'
t "the_record_of_it" sh -c "cat '$home'/transport.*"
has "says_so_too" '"event":"start".*"transport":"ofi:tcp[^"]*","transport_why":"asked for"'
rm -f "$home"/transport.*

site_conf transport=ofi:tcp rma=yes
# shellcheck disable=SC2016
t "the_site_may_say_it" sub srun -N2 -n2 --ddict-managers=2 --ddict-mem=64M --ddict-record="$home/transport.%j" sh -c \
    'for i in 0 1 2 3; do head -c 700000 /dev/zero | tr "\0" "$SLURM_PROCID" | ddict put from$SLURM_PROCID.$i -; done
     for n in 0 1; do for i in 0 1 2 3; do ddict get --wait=20 from$n.$i | cksum; done; done
     [ $SLURM_PROCID != 0 ] || ddict stats'
is "large_values_are_read_the_same" "$(grep -c ' 700000$' "$out") $(grep ' 700000$' "$out" | sort -u | wc -l)" "16 2"
has "out_of_the_other_managers_memory" 'messages by ofi:tcp.* rma.*; [1-9].* of values were read out of other managers. memory'
t "its_record" sh -c "cat '$home'/transport.*"
has "is_of_libfabric" '"event":"start".*"transport":"ofi:tcp[^"]* rma"'
rm -f "$home"/transport.*
site_conf transport=ofi:tcp
t "the_user_wins" sub srun -N2 -n2 --ddict-mem=64M --ddict-transport=tcp --ddict-record="$home/transport.%j" ddict put k v
t "his_record" sh -c "cat '$home'/transport.*"
has "is_of_tcp" '"transport":"tcp"'
site_conf_end

sub srun -N2 -n2 --ddict-mem=64M --ddict-transport=ofi:nosuch --ddict-record=none sh -c 'echo it ran' >"$out" 2>&1 </dev/null
has "what_is_not_there_is_named" 'transport=ofi:nosuch: node [^ ]*: libfabric has no provider nosuch here; there are: .*tcp'
has_not "and_nothing_runs" '^it ran'
sub srun -N2 -n2 --ddict-mem=64M --ddict-transport=pigeon sh -c 'echo it ran' >"$out" 2>&1 </dev/null
has "a_wrong_word_is_named" '--ddict-transport=pigeon: want auto, tcp, ofi or ofi:PROVIDER'
clean_after "nothing_is_left"
finish
