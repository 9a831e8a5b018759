# SPDX-License-Identifier: Apache-2.0
"""Data sets in a dictionary: ddict.load() or `ddict load` puts them there, and any process of the job opens them by name."""

import json as _json
import operator as _operator
import os as _os
import shutil as _shutil
import signal as _signal
import subprocess as _subprocess
import sys as _sys
from array import array as _array
from collections.abc import Sequence as _Sequence

from . import _ddict

_PART = 65536   # items in one part of a list, see doc/SETS.md of the sources
_BEAT_S = 0.5
_STOP_S = 60    # seconds from ^C to the end of the loaders on all nodes: more than Slurm's KillWait


class LoadError(_ddict.Error):
    """Loading failed; the text names the source and its member. .code is libddict's code, or a negative errno value:
    -EIO or -EBADMSG if a source could not be read or is damaged, -EINTR after a signal."""


def _numbers(data, typecode):
    numbers = _array(typecode)
    numbers.frombytes(data)
    if _sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class _Parts(_Sequence):
    """A list that is stored in parts; a part is read when it is needed, and the two parts used last are kept."""

    def __init__(self, set_, what):
        self._set, self._what, self._parts = set_, what, {}

    def __len__(self):
        return len(self._set)

    def _part(self, p):
        part = self._parts.get(p)
        if part is None:
            part = self._read(p)
            while len(self._parts) > 1:
                self._parts.pop(next(iter(self._parts)), None)
            self._parts[p] = part
        return part

    def _stored(self, p):
        return self._set.d["ddict.set", self._set.name, self._what, p]

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        n = len(self)
        if i < 0:
            i += n
        if not 0 <= i < n:
            raise IndexError("index out of range")
        return self._part(i // _PART)[i % _PART]

    def __iter__(self):
        for p in range(self._set._info["parts"]):
            yield from self._part(p)


class _Keys(_Parts):
    def _read(self, p):
        data, at, keys = self._stored(p), 0, []
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at:at + 4], "little")
            keys.append(_ddict.bytes_key(data[at + 4:end]))
            at = end
        return keys


class _NumberedKeys(_Sequence):
    def __init__(self, set_):
        self._prefix, self._n = set_.prefix, len(set_)

    def __len__(self):
        return self._n

    def __getitem__(self, i):
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(self._n))]
        if i < 0:
            i += self._n
        if not 0 <= i < self._n:
            raise IndexError("index out of range")
        return f"{self._prefix}{i}" if self._prefix else i


def _number(i):
    try:
        return _operator.index(i)
    except TypeError:
        raise TypeError(f"the items of a set are asked for by their number, not by {i!r}; their keys are in its .keys") from None


class Set(_Sequence):
    """Set(name, d) -- the set of this name in d; KeyError when there is none

    set[i] is the value of item i, len(set) the number of items; the item's key in the dictionary is set.keys[i]. Attributes: name, d, kind ("tar", "dir", ...),
    prefix, sources, bytes, skipped, classes (sorted names, or None), class_to_idx, counts (items of each class, or None), labels (an array of 64-bit ints, one
    for each item, or None), sizes (bytes of each item), dtype and shape of one record (IDX and .npy, else None), info (the set's whole entry). Can be pickled.
    """

    def __init__(self, name, d):
        self.name, self.d = name, d
        try:
            self._info = _json.loads(d["ddict.set", name])
        except _ddict.KeyLostError:
            raise
        except KeyError:
            raise KeyError(f"there is no set {name!r} in the dictionary") from None
        self.kind, self.prefix, self.sources = self._info["kind"], self._info["prefix"], self._info["sources"]
        self.bytes, self.skipped = self._info.get("bytes"), self._info.get("skipped", 0)  # None: a set made by DDictDataset
        self.classes, self.counts = self._info.get("classes"), self._info.get("counts")
        self.dtype = self._info.get("dtype")
        self.shape = tuple(self._info["shape"]) if "shape" in self._info else None
        self.keys = _NumberedKeys(self) if self._info["numbered"] else _Keys(self, "keys")
        self._labels = self._sizes = None

    @property
    def info(self):
        return dict(self._info)

    @property
    def class_to_idx(self):
        return {name: i for i, name in enumerate(self.classes)} if self.classes is not None else None

    def _all(self, what, typecode):
        data = b"".join(self.d.__getitems__([("ddict.set", self.name, what, p) for p in range(self._info["parts"])]))
        return _numbers(data, typecode)

    @property
    def labels(self):
        if self._labels is None and self._info.get("labels", self.classes is not None):
            self._labels = self._all("labels", "q")
        return self._labels

    @property
    def sizes(self):
        if self._sizes is None:
            self._sizes = self._all("sizes", "Q")
        return self._sizes

    def __len__(self):
        return self._info["items"]

    def __getitem__(self, i):
        if isinstance(i, slice):
            return self.__getitems__(range(*i.indices(len(self))))
        return self.d[self.keys[_number(i)]]

    def __getitems__(self, indices):
        """__getitems__(indices) -- the values of these items, fetched together"""
        keys = self.keys
        return self.d.__getitems__([keys[_number(i)] for i in indices])

    def __reduce__(self):
        return Set, (self.name, self.d)

    def __repr__(self):
        size = f", {self.bytes} bytes" if self.bytes is not None else ""
        classes = f", {len(self.classes)} classes" if self.classes is not None else ""
        return f"<ddict.Set {self.name!r}: {len(self)} items{size}, {self.kind}{classes}>"


def _attached(d):
    if d is None:
        from . import attach
        d = attach()
    return d


def sets(d=None):
    """sets(d=None) -- the names of the sets in the dictionary, sorted; d: None for the job's"""
    return sorted(key[1] for key in _attached(d).keys(("ddict.set",)) if type(key) is tuple and len(key) == 2)


def open_set(name, d=None):
    """open_set(name, d=None) -- the set of this name as a ddict.Set; KeyError when there is none; d: None for the job's dictionary"""
    return Set(name, _attached(d))


def _command():
    """The `ddict` program installed with the loaded libddict, else the one on PATH."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")
                if "libddict.so" in path[2]:
                    folder = _os.path.dirname("/" + path[2])
                    for place in ("../bin", "../../bin", ".."):
                        program = _os.path.normpath(_os.path.join(folder, place, "ddict"))
                        if _os.access(program, _os.X_OK) and _os.path.isfile(program):
                            return program
                    break
    except OSError:
        pass
    program = _shutil.which("ddict")
    if program is None:
        raise LoadError("the program ddict is neither beside libddict nor on PATH")
    return program


def _run(words, progress, beat=None):
    """Run a verb of the command. Returns its exit code, the object that it prints, and its stderr. beat is called now and then."""
    process = _subprocess.Popen(words, stdin=_subprocess.DEVNULL, stdout=_subprocess.PIPE, stderr=None if progress else _subprocess.PIPE)
    try:
        while True:
            if beat is not None:
                beat()
            try:
                out, err = process.communicate(timeout=None if beat is None else _BEAT_S)
                break
            except _subprocess.TimeoutExpired:
                pass
    except BaseException:  # ^C: tell the processes on all nodes to end
        process.send_signal(_signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except _subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    try:
        summary = _json.loads(out)
    except ValueError:
        summary = {}
    return process.returncode, summary, (err or b"").decode(errors="replace").strip()


def load(sources, prefix="", set=None, *, d=None, kind=None, on_error="stop", replace=False, threads=None, here=False, anon=False, progress=None):
    """load(sources, prefix="", set=None, *, d=None, kind=None, on_error="stop", replace=False, ...) -- put data into the dictionary; a ddict.Set

    sources: a path or a list of paths: a tar (plain or compressed, also of tars), a zip, a folder, IDX files (images and labels), .npy, .npz, a text file (one
    record for each line), FASTA, or s3://bucket/path with the credentials of the AWS tools. Keys are prefix + the path of the member, or the number of the record.
    set: the set's name; None for the prefix, or the name of the first source.

    This runs `ddict load`: each node reads its share of the sources; the same call continues a load that stopped, and does not repeat one that is complete
    (unless replace=True). If several ranks make the same call, one loads and the others wait. kind: the kind of the sources, if it cannot be told from their
    names and first bytes. anon: do not sign requests to S3, for public buckets. on_error: "stop" at the first damaged member with ddict.LoadError, or "skip" it.
    here: read on this process's node alone. progress: show progress on stderr; None: if that is a terminal. The result's .summary has items, bytes, seconds,
    mb_per_s_node and the skipped members.
    """
    d = _attached(d)
    if isinstance(sources, (str, bytes, _os.PathLike)):
        sources = [sources]
    if progress is None:
        progress = _sys.stderr is not None and _sys.stderr.isatty()
    words = [_command(), "load", "--json", "--name", d.name, "--prefix", prefix, "--on-error", on_error]
    words += ["--set", set] if set is not None else []
    words += ["--as", kind] if kind is not None else []
    words += ["--threads", str(threads)] if threads is not None else []
    words += ["--replace"] * bool(replace) + ["--here"] * bool(here) + ["--anon"] * bool(anon) + ["--quiet"] * (not progress)
    words += ["--", *map(_os.fspath, sources)]
    code, summary, err = _run(words, progress)
    if code != 0 or "set" not in summary:
        lines = err.splitlines()
        error = LoadError(summary.get("error") or (lines[-1] if lines else f"ddict load ended with {code}"))
        error.code = summary.get("code")
        raise error
    result = Set(summary["set"], d)
    result.summary = summary
    return result


class SaveError(_ddict.Error):
    """Saving or restoring failed; the text names the file."""


def _saved(verb, path, prefix, d, progress, *more):
    if progress is None:
        progress = _sys.stderr is not None and _sys.stderr.isatty()
    words = [_command(), verb, "--json", "--name", _attached(d).name, *more]
    words += ["--prefix", prefix] if prefix is not None else []
    words += ["--quiet"] * (not progress) + ["--", _os.fspath(path)]
    code, summary, err = _run(words, progress)
    if "items" not in summary:
        raise SaveError(err.removeprefix(f"ddict {verb}: ") or f"ddict {verb} ended with {code}")
    return summary


def save(path, prefix=None, *, files=False, d=None, progress=None):
    """save(path, prefix=None, *, files=False, d=None, progress=None) -- write the dictionary to disk; a dict of items, bytes, seconds, nodes

    All nodes write into the folder path, on storage that they share; it gets this name when it is complete. A path that ends in .ddict becomes one file. prefix:
    save only str keys that begin with it. files: write a file for each value, named by its key; "left_out" of the result counts keys that cannot name a file.
    "lost" is there, and true, if keys had been lost with a node (--ddict-refill). This runs `ddict save`. Raises ddict.SaveError.
    """
    return _saved("save", path, prefix, d, progress, *["--files"] * bool(files))


def restore(path, prefix=None, *, keep=False, pickles=True, d=None, progress=None):
    """restore(path, prefix=None, *, keep=False, pickles=True, d=None, progress=None) -- put what save() wrote into the dictionary; a dict of items, bytes, seconds, nodes

    Values of keys that exist are replaced, or kept with keep=True. pickles=False leaves pickles out, because reading one runs the code in it, and counts
    them in "left_out": use it for files from people whom you do not trust. This runs `ddict restore`. Raises ddict.SaveError.
    """
    return _saved("restore", path, prefix, d, progress, *["--keep"] * bool(keep), *["--no-pickles"] * (not pickles))
