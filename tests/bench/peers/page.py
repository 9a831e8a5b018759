# SPDX-License-Identifier: Apache-2.0
"""The page of a run: doc/performance.md. Results that were measured by hand are in doc/performance-notes.md, which is appended."""
import os

import table

NOTES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "doc", "performance-notes.md")

TEXT = """# How fast it is

Measured on one machine in one run, with ours and the others' taking turns, by `tests/bench/peers`. To repeat it:

    ./configure && make
    make -C tests/bench peers ARGS="--venv V --page $PWD/doc/performance.md"

as root, so that there can be two nodes (network namespaces joined by a veth pair), with redis-server and memcached installed.
The start by Slurm needs the build installed (`make install`, in a prefix outside of /tmp) and what `contrib/devcluster` needs.
Dragon and Ray come from a virtual environment: `python3 -m venv V && V/bin/pip install dragonhpc ray numpy`, with V as an absolute path.
`--only ROW` measures one row, `--help` lists them. For your own cluster there is `ddict bench`.

## The machine

{machine}

**Load.** {load}

## How to read it

- A ratio is the median over the repetitions, in each of which one side's turn is divided by the other's; *spread* is the lowest and the highest ratio. *fastest of each*
  compares the fastest repetition of each side, the one with the least disturbance.
- Reads in place neither wait nor make system calls. They are compared by the processor time of the reading thread, even with servers, for whose answers the
  elapsed time counts. On an idle machine both are the same; on a busy one processor time leaves out other processes. Operations that wait for another
  process are compared by elapsed time, which on a busy machine mostly shows the delays of the scheduler.
- Sets are of {keys} pairs of 1 KiB, read in random order after all were read once; each value is touched in every cache line and checked, unless the row says otherwise.
- The *hash table* is in shared memory, without lock, lease and manager, and is the upper limit; its put and get of 16 MiB are a memcpy. LMDB runs with its fastest settings,
  in memory. Redis and memcached answer over a UNIX socket, through our own client in C, which sends all requests of a batch in one write.
- Rows across two nodes use two network namespaces of the machine. In rows of large values each node has half of the cores, for ours and the others alike.
- Each turn took {seconds} s (values of 64 MiB: four times that), {reps} turns of each side ({often} of two rows whose ratio is near to 1).

## The table

{table}
{missing}
{notes}"""


def load_text(result):
    before, after, cores = result["load_before"], result["load_after"], result["machine"]["cores"]
    text = "%.1f processes wanted its %d cores before the run, %.1f after it (one minute's average)." % (before[0], cores, after[0])
    if before[0] > 1.5:
        text += (" Other programs were running all the time: rows that wait for another process, and those of two cores, show that load rather than the program,"
                 " and a goal that is missed there is not proven missed, nor one that is reached proven.")
    return text


def text(result):
    m = result["machine"]
    machine = "%s, %d cores, %d GiB, %s, Linux %s" % (m["cpu"], m["cores"], m["memory_gib"], ", ".join("%s %s" % c for c in m["caches"].items()), m["kernel"])
    missing = "".join("\nLeft out: %s.\n" % line for line in result["missing"])
    with open(NOTES) as f:
        notes = f.read()
    return TEXT.format(machine=machine, load=load_text(result), keys="{:,}".format(result["keys"]), seconds=result["seconds"], reps=result["reps"], often=3 * result["reps"],
                       table=table.markdown(result), missing=missing, notes=notes)
