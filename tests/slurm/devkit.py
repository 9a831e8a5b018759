# SPDX-License-Identifier: Apache-2.0
"""devkit.py FOLDER: contrib/examples/imagenet (its copy FOLDER, with 9 images of make_images.py --val) finds labels in each form in which people have them, and tells what fits not."""
import os
import sys
import tarfile

import numpy

os.chdir(sys.argv[1])
sys.path.insert(0, ".")
from devkit import meta_read, validation_wnids  # noqa: E402

names = ["x/ILSVRC2012_val_%08d.JPEG" % i for i in range(1, 10)]
true = ["n%08d" % c for c in numpy.random.default_rng(2).integers(0, 3, 9)]  # as make_images.py draws them
with tarfile.open("devkit.tar.gz", "w:gz") as tar:
    tar.add("devkit", "ILSVRC2012_devkit_t12")
with open("wnids.txt", "w") as f:
    f.writelines(w + "\n" for w in true)
with open("solution.csv", "w") as f:
    f.write("ImageId,PredictionString\n")
    f.writelines("%s,%s 1 2 30 40 \n" % (n[2:-5], w) for n, w in reversed(list(zip(names, true))))
for form in ("devkit", "devkit.tar.gz", "wnids.txt", "solution.csv"):
    assert validation_wnids(form, names) == true, form
for form, few in (("wnids.txt", names[1:]), ("devkit", names[1:]), ("folder", names)):
    try:
        validation_wnids(form, few)
    except ValueError as e:
        assert form in str(e), e
    else:
        raise AssertionError(form)
with open("devkit/data/meta.mat", "rb") as f:
    data = f.read()
for cut in (100, 128, 200):  # cut off, it is an error, not another table
    try:
        meta_read(data[:cut])
    except Exception as e:
        print(cut, type(e).__name__)
    else:
        raise AssertionError(cut)
print("labels are right")
