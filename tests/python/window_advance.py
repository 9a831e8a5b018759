# SPDX-License-Identifier: Apache-2.0
"""window_advance.py NAME FROM TO [FOLDER OTHER...] - run by test_persist and 59-persist.t: puts at checkpoints FROM .. TO - 1 of a dictionary with a working
set. With a FOLDER it goes to each one together with the OTHERs, which meet in the folder. A put that fails because its checkpoint could not be saved is done
again."""
import os
import sys
import time

import ddict

name, start, end, *rest = sys.argv[1:]
folder, others = (rest[0], rest[1:]) if rest else (None, [])


def meet(i):
    """Until all have put at checkpoint i"""
    if not folder:
        return
    open(os.path.join(folder, f"{name}.{i}"), "w").close()
    limit = time.monotonic() + 120
    while not all(os.path.exists(os.path.join(folder, f"{other}.{i}")) for other in others):
        if time.monotonic() > limit:
            sys.exit(f"{name}: not all are at checkpoint {i}")
        time.sleep(0.002)


d = ddict.attach()
again = 0
for i in range(int(start), int(end)):
    d.checkpoint_id = i
    while True:
        try:
            d[name] = i
            break
        except ddict.Error as e:
            if "is not retired, as it cannot be saved" not in str(e) or again == 100:
                raise
            again += 1
    d[f"{name}/{i}"] = bytes([i]) * (1 << 20)
    meet(i)
print(name, "failed", again)
