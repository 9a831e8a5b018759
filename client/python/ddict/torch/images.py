# SPDX-License-Identifier: Apache-2.0
"""ImageFolder: a folder of images by classes, read once into the dictionary."""

import contextlib
import errno
import io
import itertools
import os
from array import array
from typing import Any, Callable, Iterator, List, Optional, Tuple

from .. import DDict, Error, KeyLostError, load
from . import _fill, _sets
from .dataset import DDictDataset, refusal

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

Wanted = Callable[[str], bool]


class File(io.BytesIO):
    """A stored file as the loader gets it: readable, with its path as its name"""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name = name


def pil_loader(file: Any) -> Any:
    """pil_loader(file) -- the image in a file, in RGB"""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("images are decoded by Pillow (`pip install pillow`, Debian's python3-pil), or by a function of yours: "
                          "ImageFolder(..., loader=function)") from None
    return Image.open(file).convert("RGB")


def is_image(path: str) -> bool:
    """is_image(path) -- whether the path has the extension of an image"""
    return path.lower().endswith(EXTENSIONS)


def _scan(root: str, wanted: Wanted, allow_empty: bool) -> Tuple[List[str], List[Tuple[str, int]]]:
    """The classes of a folder, and (path, class) of the wanted files, in torchvision's order."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"{root}: no folder of a class in it")
    files: List[Tuple[str, int]] = []
    for label, name in enumerate(classes):
        before = len(files)
        for folder, _, names in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            files += ((path, label) for path in (os.path.join(folder, n) for n in sorted(names)) if wanted(path))
        if len(files) == before and not allow_empty:
            raise FileNotFoundError(f"{os.path.join(root, name)}: no file in it is an image of the class")
    return classes, files


def _of_folder(d: DDict, name: str, root: str) -> bool:
    """Whether the set of this name is of this folder, or some process is putting a set of this name"""
    found = _sets.find(d, name)
    return found is None or root in found.get("sources", ())


def _load(d: DDict, name: str, root: str, wanted: Wanted, allow_empty: bool, timeout: Optional[float]) -> None:
    """Put the files below root as a set, together with all processes that want it; one process lists the files."""
    fill, plan_key = _fill.Fill(d, name, timeout), (_sets.MARK, name, "plan")

    def scan(_: int) -> bytes:
        d[plan_key] = _scan(root, wanted, allow_empty)
        return b""

    while True:
        if not fill.once(-2, scan):
            return
        try:
            classes, files = d[plan_key]
            break
        except KeyLostError:  # with a node: one process lists the files again
            fill.clear([-2])
        except KeyError:  # the set is complete, and the marks are removed
            return
    size, fresh = _fill.chunk_size(len(files)), set()  # fresh: files that were not stored before

    def read(mine: List[Tuple[str, int]], sizes: "array[int]") -> Iterator[Tuple[str, bytes]]:
        for path, _ in mine:
            with open(path, "rb") as f:
                data = f.read()
            if _sets.is_absent(d, path):
                fresh.add(path)
            sizes.append(len(data))
            yield path, data

    def work(chunk: int) -> bytes:
        sizes = array("Q")
        fill.put(chunk, read(files[chunk * size:(chunk + 1) * size], sizes))
        return sizes.tobytes()

    def undo(chunk: int) -> None:
        others = {key[1] for key in d.keys((_sets.MARK,)) if type(key) is tuple and len(key) > 1} - {name}
        if any(_of_folder(d, other, root) for other in others):
            return  # another set of this folder has the same files
        for path, _ in files[chunk * size:(chunk + 1) * size] if chunk >= 0 else ():
            if path in fresh:
                _sets.discard(d, path)

    def finish(results: List[bytes]) -> None:
        sizes = array("Q", b"".join(results))
        labels = [label for _, label in files]
        counts = [0] * len(classes)
        for label in labels:
            counts[label] += 1
        _sets.write(d, {"name": name, "sources": [root], "kind": "dir", "prefix": os.path.join(root, ""), "items": len(files), "bytes": sum(sizes),
                        "numbered": False, "images": True, "classes": classes, "counts": counts}, keys=[path for path, _ in files], sizes=sizes, labels=labels)

    chunks = -(-len(files) // size)
    fill.undo = undo
    try:
        fill.run(chunks, work, finish)
    except BaseException:
        with contextlib.suppress(Error):
            if all(m is None for m in fill.marks(range(-1, chunks))):  # no other process works on it any more
                fill.clear([-2])
                _sets.discard(d, plan_key)
        raise
    for key in (plan_key, fill.key(-2)):
        _sets.discard(d, key)


def _see_that_it_is_the_same(fill: _fill.Fill, root: str, overwrite: bool) -> None:
    def other(found: Any) -> Optional[str]:
        """The folder of the set, if ImageFolder put it and it is another folder"""
        source = str(found["sources"][0]) if found.get("images") and found.get("sources") else None
        return source if source is not None and os.path.isdir(root) and os.path.abspath(source) != os.path.abspath(root) else None

    found = fill.there()
    if found is None or not other(found):
        return
    if not overwrite:
        raise refusal(fill.name, f"it is that of {other(found)}")
    fill.replace(other)


class ImageFolder(DDictDataset):
    """ImageFolder(root, transform=None, target_transform=None, loader=pil_loader, is_valid_file=None, allow_empty=False, *, name=None, d=None, timeout=None, overwrite=False)

    torchvision's ImageFolder, with the same arguments, order, classes and labels: root/class/image. The files are read into the dictionary once, by all processes
    that make it at the same time, and later only from there; torchvision is not needed. root may also be a tar or zip that contains such a folder, which ddict.load()
    then reads, or the name of a set that `ddict load` or --ddict-load put there.

    loader gets the stored file as a binary file object, whose .name is its path. is_valid_file tells whether a path is an image (None: by its extension). name: the
    set's name (default: root); the keys are the files' paths. Files that change later are not read again; a set of this name from another folder raises ValueError,
    or is replaced with overwrite=True. A class without an image raises FileNotFoundError, wherever the images come from, unless allow_empty.
    """

    _as_stored = False

    def __init__(self, root: Any, transform: Optional[Callable] = None, target_transform: Optional[Callable] = None, loader: Callable = pil_loader,
                 is_valid_file: Optional[Wanted] = None, allow_empty: bool = False, *, anon: bool = False, name: Optional[str] = None,
                 d: Optional[DDict] = None, timeout: Optional[float] = None, overwrite: bool = False) -> None:
        d, root = _fill.dictionary(d), os.fspath(root)
        wanted = is_image if is_valid_file is None else is_valid_file
        if name is None and "://" not in root and _sets.find(d, root) is None:
            root = os.path.abspath(root)
        name = root if name is None else name
        _see_that_it_is_the_same(_fill.Fill(d, name, timeout), root, overwrite)
        if _sets.find(d, name) is None and os.path.isdir(root):
            _load(d, name, root, wanted, allow_empty, timeout)
        elif _sets.find(d, name) is None:
            if "://" not in root and not os.path.exists(root):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), root)
            load(root, prefix=os.path.join(name, ""), set=name, anon=anon, d=d)
        super().__init__(name, transform=transform, target_transform=target_transform, d=d)
        self.root, self.loader = root, loader
        if self.labels is None or self.classes is None:
            raise ValueError(f"the set {name!r} has no classes: its files are in no folders")
        if not self.found.get("images"):
            self._keep(wanted)
        if not allow_empty:
            self._see_that_none_is_empty()
        self.class_to_idx = {c: i for i, c in enumerate(self.classes)}

    def _keep(self, wanted: Wanted) -> None:
        """Leave out items of the set that are no images."""
        good = [wanted(str(key)) for key in self.keys]
        if not all(good):
            self.keys = list(itertools.compress(self.keys, good))
            self.labels = array("q", itertools.compress(self.labels, good))

    def _see_that_none_is_empty(self) -> None:
        there = set(self.labels)
        empty = [c for i, c in enumerate(self.classes or ()) if i not in there]
        if empty:
            raise FileNotFoundError(f"{self.name}: no file in it is an image of the class {', '.join(empty)}; allow_empty=True takes such classes, too")

    def _values(self, keys: List[Any]) -> Iterator[Any]:
        """Copy, decode and free one file after another: for a whole batch at once the allocator would return the memory to the kernel and fault it in again each time."""
        for key, view in zip(keys, self.dict._view_many(keys)):
            if view is None:
                raise KeyError(key)
            with view:
                value = view.load()
            yield self._value(key, value)

    def _value(self, key: Any, value: Any) -> Any:
        return super()._value(key, self.loader(File(str(key), value)))

    @property
    def targets(self) -> List[int]:
        """the label of each image"""
        return list(self.labels)

    @property
    def samples(self) -> List[Tuple[str, int]]:
        """(path, label) of each image"""
        return list(zip(self.keys, self.targets))

    imgs = samples


class S3ImageFolder(ImageFolder):
    """S3ImageFolder(bucket, prefix="", transform=None, target_transform=None, anon=False, *, ...) or S3ImageFolder("s3://bucket/prefix", ...)

    An ImageFolder in a bucket. The class of an image is the last folder of its key, as dask-pytorch-ddp's class has it. Its arguments are those of dask-pytorch-ddp's class of this name, s3_bucket= and s3_prefix=, or a URL and ImageFolder's arguments.
    ddict.load() reads the objects into the dictionary once, on all nodes, with the credentials, region and endpoint that the AWS tools would use; anon=True: unsigned.
    """

    def __init__(self, *args: Any, s3_bucket: Optional[str] = None, s3_prefix: str = "", **kwds: Any) -> None:
        given = list(args)
        if s3_bucket is not None:
            bucket, prefix = s3_bucket, s3_prefix
        else:
            bucket = given.pop(0) if given else kwds.pop("root", None)
            if not isinstance(bucket, str) or not bucket:
                raise TypeError("S3ImageFolder wants a bucket and a prefix, or s3://bucket/prefix")
            prefix = given.pop(0) if given and isinstance(given[0], str) else s3_prefix
        url = bucket.startswith("s3://")
        if not url and "/" in bucket:
            raise ValueError(f"{bucket!r} is neither a bucket nor s3://bucket/prefix")
        if not url and len(given) > 2:  # transform, target_transform, anon
            kwds["anon"] = given.pop(2)
        super().__init__(bucket if url else f"s3://{bucket}/{prefix}", *given, **kwds)
        names = [str(key).rsplit("/", 2)[-2] for key in self.keys]
        if self.labels and self.classes and any(name != self.classes[label] for name, label in zip(names, self.labels)):  # folders in folders
            self.classes = sorted(set(names))
            self.class_to_idx = {c: i for i, c in enumerate(self.classes)}
            self.labels = array("q", (self.class_to_idx[name] for name in names))
