#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sixteen nodes, on a cluster of their own: 32 managers get ready, serve, and end. The full length with times: tests/bench/nodes.py.
. "$(dirname "$0")/lib.sh"
prefix=$(cat "/var/lib/ddict-devcluster/$DEVCLUSTER_ID/etc/prefix")
DEVCLUSTER_ID=w$(printf %05d $((RANDOM % 100000)))
export DEVCLUSTER=$devcluster
trap '"$devcluster" down 2>/dev/null; rm -f "$out"' EXIT
t "a_cluster_of_sixteen_nodes_is_up" timeout $((120 * slow)) "$devcluster" up -n 16 --prefix "$prefix" --mem-per-node 400 || finish
mapfile -t nodes < <("$devcluster" nodes)
has_pmix && mpi=pmix || mpi=none
t "32_managers_on_16_nodes_serve_and_end" timeout $((120 * slow)) "$tests/../bench/nodes.py" --nodes 16 --count 1 --mpi $mpi
sed 's/^/# /' "$out"
clean_after "nothing_is_left"
t "the_cluster_is_down" "$devcluster" down
finish
