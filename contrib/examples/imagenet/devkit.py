# SPDX-License-Identifier: Apache-2.0
"""The classes of ImageNet's validation images, which its val.tar does not have, from any of the files that people keep them in:

- the devkit, ILSVRC2012_devkit_t12.tar.gz or the folder that it unpacks to: a number for each image, and meta.mat, which has the folder (WNID) of each number
- a text file with a WNID on each line, in the order of the images' names
- Kaggle's LOC_val_solution.csv: the name of an image, a comma, a WNID
"""
import csv
import os
import struct
import tarfile
import zlib

NUMBERS, META = "ILSVRC2012_validation_ground_truth.txt", "meta.mat"
# Parts of a MATLAB file, version 5, by their number
TYPES = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}
TEXT, MATRIX, COMPRESSED = {2: "latin-1", 4: "utf-16-le", 16: "utf-8", 17: "utf-16-le"}, 14, 15
STRUCT, CHAR = 2, 4


def _parts(data):
    """(type, bytes) of each part."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind >> 16:  # a small part: its size is in the upper half, its bytes follow at once
            yield kind & 0xffff, data[at + 4:at + 4 + (kind >> 16)]
            at += 8
            continue
        yield kind, data[at + 8:at + 8 + size]
        at += 8 + size + (-size % 8 if kind != COMPRESSED else 0)


def _matrix(data):
    """A number or a text; of a struct array a list of dicts. None: something else, or empty."""
    parts = list(_parts(data))
    if len(parts) < 4:
        return None
    kind, (what, body) = parts[0][1][0], parts[3]
    if kind == STRUCT:
        width = struct.unpack("<i", body)[0]
        names = [parts[4][1][i:i + width].split(b"\0")[0].decode() for i in range(0, len(parts[4][1]), width)]
        values = [body for _, body in parts[5:]]
        return [dict(zip(names, map(_matrix, values[i:i + len(names)]))) for i in range(0, len(values), len(names))]
    if kind == CHAR:
        return body.decode(TEXT[what])
    letter = TYPES.get(what)
    return struct.unpack_from("<" + letter, body)[0] if letter and len(body) >= struct.calcsize(letter) else None


def meta_read(data):
    """{number: WNID} of meta.mat. Synsets with children have numbers, too, behind those of the 1,000 classes."""
    for kind, body in _parts(data[128:]):
        if kind == COMPRESSED:
            kind, body = next(_parts(zlib.decompress(body)))
        synsets = _matrix(body) if kind == MATRIX else None
        if isinstance(synsets, list):
            return {int(s["ILSVRC2012_ID"]): s["WNID"].strip() for s in synsets}
    raise ValueError("meta.mat has no list of synsets")


def _devkit_files(path):
    """The two files, as bytes, of a folder or a tar."""
    found = {}
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            found.update((n, os.path.join(folder, n)) for n in names if n in (NUMBERS, META))
        for name, place in found.items():
            with open(place, "rb") as f:
                found[name] = f.read()
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                name = os.path.basename(member.name)
                if name in (NUMBERS, META) and member.isfile():
                    found[name] = tar.extractfile(member).read()
    absent = [n for n in (NUMBERS, META) if n not in found]
    if absent:
        raise ValueError("%s: no devkit: it has no %s" % (path, absent[0]))
    return found[NUMBERS], found[META]


def validation_wnids(path, names):
    """The WNID of each image; names: those of the images, sorted."""
    if os.path.isdir(path) or tarfile.is_tarfile(path):
        numbers, meta = _devkit_files(path)
        wnids = meta_read(meta)
        labels = [wnids[int(n)] for n in numbers.split()]
    else:
        with open(path, newline="") as f:
            rows = [row for row in csv.reader(f) if row]
        if any(len(row) > 1 for row in rows):
            of = {row[0]: row[1].split()[0] for row in rows if len(row) > 1 and row[1].strip()}
            labels = [of[os.path.splitext(os.path.basename(n))[0]] for n in names]
        else:
            labels = [row[0].strip() for row in rows]
    if len(labels) != len(names):
        raise ValueError("%s has labels of %d images, there are %d" % (path, len(labels), len(names)))
    return labels
