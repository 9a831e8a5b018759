# SPDX-License-Identifier: Apache-2.0
"""runtime_table.py NAME HOW PEERS HOSTS... - reads from stdin what the ranks said and compares it with the truth.

A line of a rank is: its host name, a blank, the answer of `ddict runtime --json --check`. HOSTS are the hosts on which the ranks run, in order of rank;
A ? after HOW: the places of other nodes' ranks are not certain; a !: PMIx was passed over; a ~: by some ranks, others used it. Prints ok or not ok for each column of the table.
"""

import json
import sys


def main():
    name, how, peers, *hosts = sys.argv[1:]
    sure = not how.endswith("?")
    said, times = {}, []
    for line in sys.stdin:
        host, _, text = line.strip().partition(" ")
        if text.startswith("{"):
            me = json.loads(text)
            said[me["rank"]] = (host, me)
    nodes = list(dict.fromkeys(sorted(hosts)))
    size = len(hosts)
    columns = {key: set() for key in ("rank", "size", "local_rank", "nodes", "node", "how", "exchange", "barrier")}

    def want(column, rank, got, wanted):
        if got != wanted:
            columns[column].add(f"rank {rank}: {got!r}, wanted {wanted!r}")

    want("rank", "all", sorted(said), list(range(size)))
    for rank, (host, me) in said.items():
        here = [r for r, h in enumerate(hosts) if h == hosts[rank]] if rank < size else []
        want("rank", rank, host, hosts[rank] if rank < size else None)
        want("size", rank, me["size"], size)
        want("local_rank", rank, (me["local_rank"], me["local_size"]), (here.index(rank) if here else None, len(here)))
        want("node", rank, me["node"], host)
        if how.endswith("~"):
            want("how", rank, (me["how"] in (how[:-1], "PMIx"), me["peers"]), (True, peers))
        else:
            want("how", rank, (me["how"], me["peers"], bool(me["trouble"])), (how.rstrip("?!"), peers, how.endswith("!")))
        want("nodes", rank, (me["node_id"], me["nodes"]), (nodes.index(host), len(nodes)))
        for i, node in enumerate(me["list"]):
            ranks = [r for r, h in enumerate(hosts) if h == nodes[i]]
            want("nodes", rank, (node["name"], node["ranks"]), (nodes[i], ranks if sure or nodes[i] == host else None))
        for key in ("exchange", "barrier"):
            ms = me.get(key + "_ms")
            times.append(ms or 0)
            want(key, rank, ms is not None and ms < 1000, True)
    for column in columns:
        if not said:
            columns[column].add("no rank has said anything")
    for column, wrong in columns.items():
        print(f"{'not ok' if wrong else 'ok'} {name}_{column}")
        for line in sorted(wrong):
            print("#", line)
    print(f"# {name}: slowest exchange or barrier {max(times, default=0):.1f} ms")
    return 1 if any(columns.values()) else 0


sys.exit(main())
