# SPDX-License-Identifier: Apache-2.0
"""The tasks of a step against the plan that `ddict runtime --bind --json` makes for the same machine and the same cores.

gpu_table.py masks PLAN              --cpu-bind=mask_cpu: of all tasks
gpu_table.py check PLAN GPUS <LINES  "LOCALID CUDA_DEVICE_ORDER CUDA_VISIBLE_DEVICES" of each task; GPUS of the mask that Slurm gave
"""
import json
import sys


def cpus(text):
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


with open(sys.argv[2]) as f:
    plan = json.load(f)
ranks = plan["ranks"]
if sys.argv[1] == "masks":
    print(",".join(hex(sum(1 << c for c in cpus(r["cpus"]))) for r in ranks))
    sys.exit()

gpus, how, bad = int(sys.argv[3]), plan["bind"], []
seen = {}
for line in sys.stdin:
    words = line.split()
    if len(words) == 3 and words[0].isdigit():
        seen[int(words[0])] = words[1:]
if sorted(seen) != list(range(len(ranks))):
    bad.append("tasks %s" % sorted(seen))
used = []
for local, (order, visible) in sorted(seen.items()):
    entries = visible.split(",")
    # What a script takes: set_device(LOCAL_RANK % device_count()), or device 0.
    used.append(entries[local % len(entries) if how == "closest" else 0])
    if order != "PCI_BUS_ID" or sorted(map(int, entries)) != list(range(gpus)):
        bad.append("task %d: %s %s" % (local, order, visible))
    if visible != ranks[local]["value"]:
        bad.append("task %d: %s is not %s" % (local, visible, ranks[local]["value"]))
if how == "closest" and len({v for _, v in seen.values()}) != 1:
    bad.append("more than one order")
counts = [used.count(g) for g in set(used)]
if len(set(used)) != min(len(ranks), gpus) or max(counts) - min(counts + [len(ranks) // gpus]) > 1:
    bad.append("GPUs used: %s" % used)
print("%s %2d tasks: GPUs %s, distance %.1f%s" % (how, len(ranks), " ".join(used), sum(r["distance"] for r in ranks), "".join("; WRONG: " + b for b in bad)))
sys.exit(bool(bad))
