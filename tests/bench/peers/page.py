# SPDX-License-Identifier: Apache-2.0
"""The page of a run: doc/performance.md. Results that were measured by hand are in doc/performance-notes.md, which is appended."""
import os

import table

NOTES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "doc", "performance-notes.md")

TEXT = """# How fast it is

Measured on one machine in one run, ours and the others' taken in turn; made by `tests/bench/peers`. To repeat it:

    ./configure && make
    make -C tests/bench peers ARGS="--venv V --page $PWD/doc/performance.md"

as root, so that there can be two nodes (network namespaces joined by a veth pair), with redis-server and memcached installed.
The start by Slurm needs the build installed (`make install`, in a prefix outside of /tmp) and what `contrib/devcluster` needs.
Dragon and Ray come from a virtual environment of their own: `python3 -m venv V && V/bin/pip install dragonhpc ray numpy`; V as an absolute path.
`--only ROW` measures one row, `--help` lists them. For your own cluster there is `ddict bench`.

## The machine

{machine}

**Load.** {load}

## How to read it

- A ratio is the median over the repetitions, each of one side's turn by the other's; *spread* is the lowest and the highest. *fastest of each* compares the
  fastest repetition of each side, which is what is left when nobody disturbed them.
- Reads in place neither wait nor call the system. They are compared by the processor time of the reading thread, also with servers, whose answers are
  taken by the clock. On an idle machine that is the same; on a busy one it leaves out what others took from us. Everything that waits for another
  process is compared by the clock, and on a busy machine mostly says how long the scheduler takes.
- Sets are of {keys} pairs of 1 KiB, in random order, after all were read once; every value that is read is touched in each cache line and checked, unless the row says otherwise.
- The *hash table* lies in shared memory, has no lock, no lease and no manager, and is the ceiling; its put and get of 16 MiB are a memcpy. LMDB runs with its fastest settings,
  in memory. Redis and memcached answer over a UNIX socket, through a client of ours in C with one write for all requests of a batch.
- Rows across two nodes use two network namespaces of the machine. Those of large values give each node half of its cores, ours and the others' alike.
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
