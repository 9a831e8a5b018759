#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rank in a container reaches its node's managers with no bind mounts: private /tmp and /dev/shm, other users, processes and host names do not matter. A network of its own is
# crossed by a socket file. Nobody, who may be anybody, is refused.
. "$(dirname "$0")/lib.sh"
. "$tests/containers.sh"
limit=120
uid=$(sub id -u)
four="-N2 -n4 --ntasks-per-node=2 --ddict-managers=2 --ddict-mem=64M --ddict-record=none"
tmp=/tmp/ddict-outside shm=/dev/shm/ddict-outside
sub python3 -c 'import ddict' 2>/dev/null || { echo "no Python binding is installed"; exit 77; }

outside() { # touch|rm: files of the nodes that no container shall see
    local n
    for n in "${nodes[@]}"; do "$devcluster" exec "$n" -- "$@" "$tmp" "$shm"; done
}
trap 'outside rm -f; image_remove; rm -f "$out" containers.py' EXIT

# fine NAME HOW WORDS... - ranks in it do what ranks do, and found their place by HOW
fine() {
    local name=$1 how=$2 wanted=4
    shift 2
    [ "${*: -1}" != die ] || wanted=3
    # shellcheck disable=SC2086
    sub srun $four "$@" >"$out" 2>&1 </dev/null
    # shellcheck disable=SC2086
    if slurm_slipped; then sub srun $four "$@" >"$out" 2>&1 </dev/null; fi
    is "$name" "$(grep -Ec "^rank . of 4 is fine.*; $how" "$out")" $wanted
    [ $wanted = 4 ] || has "${name}_and_is_seen" "^rank 0 saw it die"
}
env="Slurm's variables" # what is found where PMIx would refuse this user

bubble_may=$(containers_may "${bubble[@]}") && bubble_may=''
charlie_may=$(containers_may ch-run --version) && charlie_may=''
if [ -z "$charlie_may" ]; then
    image_make "$tests/containers.py" || exit 1
    charlie_may=$(containers_may "${charlie[@]}" "${image_usr[@]}" "$image" --) && charlie_may=''
fi
if [ -n "$bubble_may" ] && [ -n "$charlie_may" ]; then echo "$bubble_may; $charlie_may"; exit 77; fi
outside touch

if [ -z "$bubble_may" ]; then
    cp "$tests/containers.py" . || exit 1 # not below /tmp
    run=(python3 "$PWD/containers.py") all=$tmp,$shm
    fine bubblewrap_as_root "$env" "${bubble[@]}" --unshare-uts --hostname sandbox --uid 0 --gid 0 "${run[@]}" 0 $all
    fine bubblewrap_as_another_user "$env" --mpi=none "${bubble[@]}" --uid 4321 --gid 4321 "${run[@]}" 4321 $all
    fine bubblewrap_with_a_network_of_its_own "$env" ddict socket -- "${bubble[@]}" --unshare-net --bind {socket} {socket} "${run[@]}" "$uid" $all loader
    fine bubblewrap_where_a_rank_dies "$env" "${bubble[@]}" --uid 0 --gid 0 "${run[@]}" 0 $all die
    # shellcheck disable=SC2086
    sub srun $four "${bubble[@]}" --unshare-net "${run[@]}" "$uid" $all >"$out" 2>&1 </dev/null
    is without_the_socket_the_way_is_told "$(grep -c 'no dictionary: nothing listens under the name.*network namespace.*ddict socket' "$out")" 4
    # shellcheck disable=SC2086
    sub srun $four "${bubble[@]}" --uid 65534 --gid 65534 ddict ls >"$out" 2>&1 </dev/null
    is nobody_is_refused "$(grep -c 'uid 65534 stands for every user without a number' "$out")" 4
else
    echo "skipped bubblewrap: $bubble_may"
fi

if [ -z "$charlie_may" ]; then
    inside=("${charlie[@]}" "${image_usr[@]}") run=("$image" -- python3 /tests/containers.py)
    fine charliecloud_as_itself "(PMIx|$env)" "${inside[@]}" "${run[@]}" "$uid" $tmp loader
    sub srun -N1 -n1 --ddict-mem=32M --ddict-record=none "${inside[@]}" "$image" -- sh <<<'ls /tests; ddict put said "in the image" && ddict get said && echo' >"$out" 2>&1
    is a_shell_in_it "$(head -n 2 "$out" | xargs)" "containers.py in the image"
    fine charliecloud_as_root "$env" "${inside[@]}" --uid=0 --gid=0 "${run[@]}" 0 $tmp
    fine charliecloud_where_a_rank_dies "$env" --mpi=none "${inside[@]}" "${run[@]}" "$uid" $tmp die
else
    echo "skipped charliecloud: $charlie_may"
fi
outside rm -f
clean_after nothing_is_left
finish
