# SPDX-License-Identifier: Apache-2.0
"""The dictionary as a file system of fsspec: ddict://[NAME]/KEY. Needs fsspec (pip install fsspec).

    import fsspec, pandas
    pandas.read_csv("ddict:///tables/a.csv")       # the key "tables/a.csv" of the job's dictionary
    with fsspec.open("ddict://other/log", "ab") as f:  # of the dictionary `other`
        f.write(b"a line")

Files are the items whose keys are str; a file has the item's bytes as they are stored (bytes, UTF-8 of a str). A directory is there while a key begins with its
name and a slash. A path is the key as it is; of a URL, and of what is found below such a path, it begins with one slash more, so that "ddict://" in front makes
it a URL again.
"""

import errno
import io
import math
import os

from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from . import _files
from ._ddict import KeyLostError, NoDictError

_URL = "ddict://"


def _split(url):
    """The name, None if it gives none, and the key of a URL"""
    name, slash, key = url[len(_URL):].partition("/")
    return (name or None, key) if slash else (None, name)


def _key(path):
    return path[1:] if path.startswith("/") else path


def _spelled(like):
    """What gives the path of a key, with a slash in front if the path `like` has one"""
    lead = "/" if like.startswith("/") else ""
    return lambda key: f"/{key}" if lead or key.startswith("/") else key


def _no_file(path):
    return FileNotFoundError(errno.ENOENT, "no such key in the dictionary", path)


def _is_directory(path):
    return IsADirectoryError(errno.EISDIR, "other keys are below it, and it is none", path)


def _flat(value):
    """What has the buffer interface, as bytes that are stored as such"""
    return value if isinstance(value, bytes) else memoryview(value).cast("B")


class DDictFileSystem(AbstractFileSystem):
    """DDictFileSystem(name=None)

    name: the dictionary's, None for the job's (as ddict.attach()). Threads share the process's handle of it, a forked child and an unpickled file system attach
    their own. When that dictionary has ended, the next call attaches to another one of the name, or raises ddict.NoDictError.

    The URLs of one list are of one dictionary: fsspec takes the first one's. There are no empty directories: mkdir() does nothing. Times are not known. info(), with
    its version and ETag, gets a value of another node, so it, ls() and find(detail=True) are dear there; size(), walk(), glob() and find() are not.
    """

    protocol = "ddict"
    root_marker = ""

    def __init__(self, name=None, **storage_options):
        super().__init__(name=name, **storage_options)
        self.name = name
        self._strip_protocol = self._path_of

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        path = stringify_path(path)
        if path.startswith(_URL):
            path = f"/{_split(path)[1]}"
        return path.rstrip("/") or path[:1]

    def _path_of(self, path):
        """_strip_protocol() of this dictionary's paths: what names another one is refused"""
        if isinstance(path, list):
            return [self._path_of(p) for p in path]
        path = stringify_path(path)
        name = _split(path)[0] if path.startswith(_URL) else None
        if name not in (None, self.name) and (self.name is not None or name != self._d.name):
            raise ValueError(f"{path} is of the dictionary {name}, not of {self.name or self._d.name}, which this file system has; its key {path[len(_URL):]} is "
                             f"{_URL}/{path[len(_URL):]}")
        return type(self)._strip_protocol(path)

    def unstrip_protocol(self, name):
        return f"{_URL}{self.name or ''}/{_key(self._strip_protocol(name))}"

    @staticmethod
    def _get_kwargs_from_urls(path):
        path = stringify_path(path)
        name = _split(path)[0] if path.startswith(_URL) else None
        return {} if name is None else {"name": name}

    @property
    def fsid(self):
        return f"ddict_{self._d.name}"

    @property
    def _d(self):
        try:
            return _files.handle(self.name)
        except NoDictError as e:
            if self.name is not None:
                e.args = f"{e}; in ddict://NAME/KEY the first part is the dictionary's name, ddict:///KEY is of the job's",
            raise

    # --- what is there ---

    @staticmethod
    def _directory(path):
        return {"name": path, "size": 0, "type": "directory"}

    @staticmethod
    def _file(path, view, d):
        return {"name": path, "size": view.nbytes, "type": "file", "version": view.version, "ETag": f"{d.name}/{view.version}/{view.nbytes}"}

    def _has_below(self, d, key):
        return next(d.keys(f"{key}/" if key else ""), None) is not None

    def _fill(self, d, paths, sizes):
        """The infos of files, by their paths; sizes: with sizes, and without those that are gone meanwhile"""
        if not sizes:
            return {path: {"name": path, "type": "file"} for path in paths}
        keys = {_key(path): path for path in paths}
        return {keys[key]: self._file(keys[key], view, d) for key, view in _files.views(d, keys) if view is not None}

    def info(self, path, **kwargs):
        path, d = self._strip_protocol(path), self._d
        key = _key(path)
        try:
            if key:
                with d.view(key) as view:
                    return self._file(path, view, d)
        except KeyLostError:
            raise
        except KeyError:
            pass
        if key and not self._has_below(d, key):
            raise _no_file(path)
        return self._directory(path)

    def size(self, path):
        """size(path) -- bytes of the file, which are not got for it; 0 of a directory"""
        path, d = self._strip_protocol(path), self._d
        try:
            return d.size(_key(path)) if _key(path) else 0
        except KeyLostError:
            raise
        except KeyError:
            if self._has_below(d, _key(path)):
                return 0
        raise _no_file(path)

    def exists(self, path, **kwargs):
        key, d = _key(self._strip_protocol(path)), self._d
        return not key or key in d or self._has_below(d, key)

    def isfile(self, path):
        key = _key(self._strip_protocol(path))
        return bool(key) and key in self._d

    def isdir(self, path):
        key, d = _key(self._strip_protocol(path)), self._d
        return not key or (key not in d and self._has_below(d, key))

    def ls(self, path, detail=True, *, sizes=True, **kwargs):
        path, d = self._strip_protocol(path), self._d
        key, spelled = _key(path), _spelled(path)
        start = f"{key}/" if key else ""
        files, directories = [], set()
        for found in d.keys(start):
            first, slash, _ = found[len(start):].partition("/")
            if first and slash:
                directories.add(spelled(start + first))
            elif not found.endswith("/"):  # a key that ends so is a marker of the directory
                files.append(spelled(found))
        if key and not files and not directories:
            files = self._ls_file(d, path, key)
        if not detail:
            return sorted({*files, *directories})
        return sorted([*self._fill(d, files, sizes).values(), *map(self._directory, directories)], key=lambda info: info["name"])

    def _ls_file(self, d, path, key):
        if key in d:
            return [path]
        if self._has_below(d, key):  # markers
            return []
        raise _no_file(path)

    def find(self, path, maxdepth=None, withdirs=False, detail=False, *, sizes=True, **kwargs):
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path, d = self._strip_protocol(path), self._d
        files, directories = self._below(d, path, maxdepth or math.inf)
        if files or directories:
            directories |= {path} if _key(path) else set()
        elif self.isfile(path):
            files = [path]
        if not detail:
            return sorted({*files, *directories} if withdirs else files)
        infos = {**{p: self._directory(p) for p in directories if withdirs}, **self._fill(d, files, sizes)}
        return {p: infos[p] for p in sorted(infos)}

    def _below(self, d, path, maxdepth):
        """The files and the directories below it, by their paths"""
        key, spelled = _key(path), _spelled(path)
        start = f"{key}/" if key else ""
        files, directories = [], set()
        for found in d.keys(start):
            parts = found[len(start):].split("/")
            if "" in parts[:-1]:  # two slashes, or one in front, are no directories
                parts = [found[len(start):]]
            directories.update(spelled(start + "/".join(parts[:depth])) for depth in range(1, min(len(parts), maxdepth + 1)))
            if parts[-1] and len(parts) <= maxdepth:
                files.append(spelled(found))
        return files, directories

    def walk(self, path, maxdepth=None, topdown=True, on_error="omit", **kwargs):
        return super().walk(path, maxdepth, topdown, on_error, **{"sizes": bool(kwargs.get("detail")), **kwargs})

    def glob(self, path, maxdepth=None, **kwargs):
        detail = kwargs.pop("detail", False)
        found = super().glob(path, maxdepth, detail=True, sizes=False, **kwargs)
        if not detail:
            return list(found)
        files = [p for p, info in found.items() if info["type"] == "file"]
        infos = self._fill(self._d, files, True)
        return {p: infos.get(p, info) for p, info in found.items() if p in infos or info["type"] != "file"}

    # --- reading ---

    def _content(self, path):
        d, key = self._d, _key(path)
        try:
            if key:
                return _files.content(d, key)
        except KeyLostError:
            raise
        except KeyError:
            pass
        raise _is_directory(path) if self._has_below(d, key) or not key else _no_file(path)

    def cat_file(self, path, start=None, end=None, **kwargs):
        return bytes(self._content(self._strip_protocol(path))[start:end])

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error="return", **kwargs):
        if max_gap is not None:
            raise NotImplementedError("max_gap: ranges are read in place, each by itself")
        if not isinstance(paths, list):
            raise TypeError(f"paths is a list, not {type(paths).__name__}")
        starts, ends = (x if isinstance(x, (list, tuple)) else [x] * len(paths) for x in (starts, ends))
        if not len(paths) == len(starts) == len(ends):
            raise ValueError(f"{len(paths)} paths, {len(starts)} starts and {len(ends)} ends")
        found, out = {}, []
        for path, start, end in zip(paths, starts, ends):
            try:
                path = self._strip_protocol(path)
                if path not in found:
                    found[path] = self._content(path)
                out.append(bytes(found[path][start:end]))
            except Exception as e:
                if on_error != "return":
                    raise
                out.append(e)
        return out

    def cat(self, path, recursive=False, on_error="raise", start=None, end=None, **kwargs):
        if on_error not in ("raise", "omit", "return"):
            raise ValueError(f"on_error={on_error!r} is not 'raise', 'omit' or 'return'")
        paths, d, out = self.expand_path(path, recursive=recursive), self._d, {}
        if not isinstance(path, (list, tuple, set)) and paths == [self._strip_protocol(path)]:
            return self.cat_file(paths[0], start, end)
        keys = {_key(p): p for p in paths if _key(p)}
        for key, view in _files.views(d, keys):
            p = keys[key]
            if view is not None:
                with memoryview(view) as data:
                    out[p] = bytes(data[start:end])
            elif self._has_below(d, key):
                if not recursive and on_error != "omit":
                    out[p] = _is_directory(p)
            elif on_error != "omit":
                out[p] = _no_file(p)
            if on_error == "raise" and isinstance(out.get(p), Exception):
                raise out[p]
        return out

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        if mode == "rb":
            return DDictFile(self, path)
        if mode not in ("wb", "xb", "ab"):
            raise ValueError(f"mode {mode!r}: an item is read (rb), replaced as a whole (wb, xb) or appended to (ab)")
        key = self._own_key(path)
        if key in self._d and mode == "xb":  # no dictionary is an error now, not when all is written
            raise FileExistsError(errno.EEXIST, "the key is there", path)
        return DDictWriter(self, path, key, mode, autocommit)

    # --- writing ---

    def _own_key(self, path):
        """The key of a path that is to be written"""
        path = self._strip_protocol(path)
        if not _key(path):
            raise _is_directory(path)
        return _key(path)

    def _put_new(self, key, value):
        if not self._d.put_new(key, value):
            raise FileExistsError(errno.EEXIST, "the key is there", key)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        key = self._own_key(path)
        if mode == "create":
            self._put_new(key, _flat(value))
        else:
            self._d[key] = _flat(value)

    def pipe(self, path, value=None, **kwargs):
        if not isinstance(path, dict) or kwargs.get("mode") == "create":
            return super().pipe(path, value, **kwargs)
        self._d.put_many({self._own_key(p): _flat(v) for p, v in path.items()})

    def touch(self, path, truncate=True, **kwargs):
        if truncate:
            self.pipe_file(path, b"")
        else:
            self._d.put_new(self._own_key(path), b"")

    def cp_file(self, path1, path2, **kwargs):
        path1, d = self._strip_protocol(path1), self._d
        key = _key(path1)
        try:
            view = d.view(key) if key else None
        except KeyLostError:
            raise
        except KeyError:
            view = None
        if view is None:
            if key and not self._has_below(d, key):
                raise _no_file(path1)
            return self.mkdirs(path2, exist_ok=True)
        with view:
            d[self._own_key(path2)] = memoryview(view) if view.tag == 0 else view.load()  # of the kind that it is

    def mkdir(self, path, create_parents=True, **kwargs):
        if self.isfile(path):
            raise FileExistsError(errno.EEXIST, "the key is there", self._strip_protocol(path))

    def makedirs(self, path, exist_ok=False):
        self.mkdir(path)

    def rmdir(self, path):
        if self.isfile(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if self._has_below(self._d, _key(self._strip_protocol(path))):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)

    def rm_file(self, path):
        key, d = self._own_key(path), self._d
        try:
            del d[key]
        except KeyLostError:
            raise
        except KeyError:
            raise (_is_directory if self._has_below(d, key) else _no_file)(path) from None

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        for p in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            try:
                if _key(p):
                    self.rm_file(p)
            except (FileNotFoundError, IsADirectoryError):
                if not recursive:
                    raise


def _reopen(fs, path, at):
    f = fs.open(path)
    f.seek(at)
    return f


class DDictFile(io.RawIOBase):
    """An item, open for reading: as it was when it was opened, in place, until this and all buffers of it are closed. Threads that share one share its position."""

    mode = "rb"

    def __init__(self, fs, path):
        self._data, self._at = None, 0
        super().__init__()
        self.fs, self.path, self.name = fs, path, path
        self._data = fs._content(path)
        self.size = self._data.nbytes

    def _open_data(self):
        if self._data is None:
            raise ValueError("I/O operation on closed file")
        return self._data

    def readable(self):
        return True

    def seekable(self):
        return True

    def getbuffer(self):
        """getbuffer() -- a memoryview of all of it, read-only, without a copy; it stays valid when the file is closed"""
        return self._open_data()[:]

    def read_buffer(self, size=-1):
        """read_buffer(size=-1) -- as read(), a memoryview without a copy; pyarrow asks for it"""
        data, at = self._open_data(), self._at
        end = self.size if size is None or size < 0 else min(self.size, at + size)
        self._at = max(at, end)
        return data[at:end]

    def read(self, size=-1):
        return bytes(self.read_buffer(size))

    readall = read1 = read

    def readinto(self, buffer):
        with memoryview(buffer) as b, b.cast("B") as to:
            part = self.read_buffer(len(to))
            to[:len(part)] = part
            return len(part)

    readinto1 = readinto

    def readline(self, size=-1):
        data, at, step = self._open_data(), self._at, 256
        end = self.size if size is None or size < 0 else min(self.size, at + size)
        while at < end:
            chunk = bytes(data[at:min(end, at + step)])
            there = chunk.find(b"\n") + 1
            if there:
                return self.read(at + there - self._at)
            at, step = at + len(chunk), min(2 * step, 1 << 20)
        return self.read(max(0, end - self._at))

    def tell(self):
        self._open_data()
        return self._at

    def seek(self, offset, whence=0):
        self._open_data()
        if whence not in (0, 1, 2):
            raise ValueError(f"whence is 0, 1 or 2, not {whence!r}")
        at = offset + (0, self._at, self.size)[whence]
        if at < 0:
            raise OSError(errno.EINVAL, f"{at} is before the start of the file", self.path)
        self._at = at
        return at

    def info(self):
        return self.fs.info(self.path)

    def close(self):
        self._data = None  # the lease ends with the last buffer of it
        super().close()

    def __reduce__(self):
        self._open_data()
        return _reopen, (self.fs, self.path, self._at)


class DDictWriter(io.BytesIO):
    """An item, open for writing: stored, or appended, as a whole when it is closed; in a transaction, by commit()."""

    def __init__(self, fs, path, key, mode, autocommit):
        super().__init__()
        self.fs, self.path, self.name, self.mode, self.autocommit = fs, path, path, mode, autocommit
        self._key, self._value = key, None

    def readable(self):
        return False

    def read(self, *args):
        raise io.UnsupportedOperation("read: the file is open for writing")

    read1 = readline = readlines = readinto = __next__ = read

    def close(self):
        if self.closed:
            return
        self._value = self.getvalue()
        super().close()
        if self.autocommit:
            self.commit()

    def commit(self):
        value, self._value = self._value, None
        if self.mode == "ab":
            self.fs._d.append(self._key, value)
        elif self.mode == "xb":
            self.fs._put_new(self._key, value)
        else:
            self.fs._d[self._key] = value

    def discard(self):
        self._value = None
