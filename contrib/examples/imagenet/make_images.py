#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Make a data set in the form of ImageNet's: a tar that contains a tar of JPEGs for each class. Each class has its own colour and pattern, under noise.

  python3 make_images.py --classes 20 --images 1000 train.tar          20,000 JPEGs of about 110 KB
"""
import argparse
import functools
import io
import multiprocessing
import os
import tarfile

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


def main():
    p = argparse.ArgumentParser(description="Make JPEGs in a tar of a tar for each class.")
    p.add_argument("path")
    p.add_argument("--classes", type=int, default=20)
    p.add_argument("--images", type=int, default=1000, help="of each class")
    p.add_argument("--width", type=int, default=500)
    p.add_argument("--height", type=int, default=375)
    args = p.parse_args()
    with multiprocessing.Pool() as pool, tarfile.open(args.path + ".part", "w") as tar:
        for name, data in pool.imap(class_tar, [(c, args) for c in range(args.classes)]):
            add(tar, name, data)
    os.rename(args.path + ".part", args.path)
    size = os.path.getsize(args.path)
    print("%s: %d classes, %d images, %.1f MB, %.1f KB an image" % (args.path, args.classes, args.classes * args.images, size / 1e6, size / args.classes / args.images / 1e3))


if __name__ == "__main__":
    main()
