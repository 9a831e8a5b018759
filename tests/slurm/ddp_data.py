# SPDX-License-Identifier: Apache-2.0
"""ddp_data.py FOLDER [MNIST [TRAIN TEST]] - a small set of images as IDX files, so many to train on and to test: the first of MNIST where that is, else ten shapes with noise, of the
same size. 960 and 240."""
import gzip
import os
import sys

import numpy as np

FILES = (("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"))


def idx_read(path, first, count):
    with gzip.open(path + ".gz", "rb") if os.path.exists(path + ".gz") else open(path, "rb") as f:
        dims = f.read(4)[3]
        shape = np.frombuffer(f.read(4 * dims), ">u4")
        return np.frombuffer(f.read(), np.uint8).reshape(shape)[first : first + count]


def idx_write(path, array):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes())


def shapes(seed, count):
    """Class c has a bar and a block where no other class has both."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 10, count).astype(np.uint8)
    images = random.randint(0, 80, (count, 28, 28)).astype(np.uint8)
    for image, label in zip(images, labels):
        image[2 + 2 * label : 5 + 2 * label, 3:25] += 150
        image[4:24, 4 + 6 * (label % 3) : 8 + 6 * (label % 3)] |= 96
    return images, labels


def main():
    folder, mnist = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    first = 0
    for (images_name, labels_name), count in zip(FILES, map(int, sys.argv[3:] or (960, 240))):
        if os.path.isdir(mnist):  # of the smaller of its sets
            images, labels = (idx_read(os.path.join(mnist, name), first, count) for name in FILES[1])
        else:
            images, labels = shapes(first, count)
        idx_write(os.path.join(folder, images_name), images)
        idx_write(os.path.join(folder, labels_name), labels)
        first += count
    print("MNIST" if os.path.isdir(mnist) else "shapes")


main()
