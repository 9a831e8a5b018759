#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make a data set in the form of ImageNet's: a tar that contains a tar of JPEGs for each class. Each class has its own colour and pattern, under noise.

  python3 make_images.py --classes 20 --images 1000 train.tar          20,000 JPEGs of about 110 KB
  python3 make_images.py --classes 20 --images 1000 --val 500 train.tar   also val.tar: 500 images in no folders, and devkit/, which has their classes
"""
import argparse
import functools
import io
import multiprocessing
import os
import struct
import tarfile
import zlib

import numpy
from PIL import Image


MARGIN = 64  # pixels by which the noise is larger than an image: each image gets another part of it


@functools.lru_cache(maxsize=1)
def noise_of(width, height):
    random = numpy.random.default_rng(1)
    return random.normal(0, 25, (height + MARGIN, width + MARGIN, 3)).astype(numpy.int16)


def jpeg(class_, index, width, height, classes):
    random = numpy.random.default_rng(class_ << 32 | index)
    angle = numpy.pi * class_ / classes
    x = numpy.arange(width, dtype=numpy.float32) * (numpy.cos(angle) * 40 / width)
    y = numpy.arange(height, dtype=numpy.float32)[:, None] * (numpy.sin(angle) * 40 / width)
    wave = 40 * numpy.sin(x + y + numpy.float32(random.random() * 6))
    colour = 128 + 40 * numpy.array([numpy.cos(2 * angle), numpy.cos(2 * angle + 2), numpy.cos(2 * angle + 4)])
    top, left = random.integers(0, MARGIN, 2)
    pixels = noise_of(width, height)[top:top + height, left:left + width] + wave.astype(numpy.int16)[:, :, None] + colour.astype(numpy.int16)
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(out, "JPEG", quality=90)
    return out.getvalue()


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mtime = 1600000000
    tar.addfile(info, io.BytesIO(data))


def class_tar(job):
    class_, args = job
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(args.images):
            add(tar, "n%08d_%d.JPEG" % (class_, i), jpeg(class_, i, args.width, args.height, args.classes))
    return "n%08d.tar" % class_, out.getvalue()


def part(kind, data):
    """A part of a MATLAB file, version 5."""
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(kind, columns, value, rows=1, name=b""):
    return part(14, part(6, struct.pack("<II", kind, 0)) + part(5, struct.pack("<ii", rows, columns)) + part(1, name) + value)


def meta(wnids):
    """meta.mat as the devkit has it: a struct of the number, name and so on of each class."""
    def text(s):
        return matrix(4, len(s), part(16, s.encode()))

    fields = ("ILSVRC2012_ID", "WNID", "words", "num_children")
    values = b"".join(matrix(6, 1, part(2, bytes([n]))) + text(w) + text("class " + w) + matrix(6, 1, part(2, b"\0")) for n, w in enumerate(wnids, 1))
    names = b"".join(f.encode().ljust(16, b"\0") for f in fields)
    synsets = matrix(2, 1, struct.pack("<HHi", 5, 4, 16) + part(1, names) + values, rows=len(wnids), name=b"synsets")
    packed = zlib.compress(synsets)
    return b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49) + struct.pack("<II", 15, len(packed)) + packed


def validation(args):
    """val.tar and devkit/ beside the tar: images of other noise, their classes mixed."""
    folder = os.path.dirname(args.path)
    data = os.path.join(folder, "devkit", "data")
    os.makedirs(data, exist_ok=True)
    classes = numpy.random.default_rng(2).integers(0, args.classes, args.val)
    order = numpy.random.default_rng(3).permutation(args.classes)  # as in the true one, numbers are not in the order of names
    with tarfile.open(os.path.join(folder, "val.tar"), "w") as tar:
        for i, class_ in enumerate(classes):
            add(tar, "ILSVRC2012_val_%08d.JPEG" % (i + 1), jpeg(int(class_), args.images + i, args.width, args.height, args.classes))
    number = {int(class_): n for n, class_ in enumerate(order, 1)}
    with open(os.path.join(data, "ILSVRC2012_validation_ground_truth.txt"), "w") as f:
        f.writelines("%d\n" % number[int(class_)] for class_ in classes)
    with open(os.path.join(data, "meta.mat"), "wb") as f:
        f.write(meta(["n%08d" % class_ for class_ in order]))


def main():
    p = argparse.ArgumentParser(description="Make JPEGs in a tar of a tar for each class.")
    p.add_argument("path")
    p.add_argument("--classes", type=int, default=20)
    p.add_argument("--images", type=int, default=1000, help="of each class")
    p.add_argument("--width", type=int, default=500)
    p.add_argument("--height", type=int, default=375)
    p.add_argument("--val", type=int, metavar="N", help="also make val.tar, of N images, and devkit/ (at most 255 classes)")
    args = p.parse_args()
    if args.val and args.classes > 255:
        p.error("--val: at most 255 classes")
    with multiprocessing.Pool() as pool, tarfile.open(args.path + ".part", "w") as tar:
        for name, data in pool.imap(class_tar, [(c, args) for c in range(args.classes)]):
            add(tar, name, data)
    os.rename(args.path + ".part", args.path)
    if args.val:
        validation(args)
    size = os.path.getsize(args.path)
    print("%s: %d classes, %d images, %.1f MB, %.1f KB an image" % (args.path, args.classes, args.classes * args.images, size / 1e6, size / args.classes / args.images / 1e3))


if __name__ == "__main__":
    main()
