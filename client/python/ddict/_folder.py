# SPDX-License-Identifier: Apache-2.0
"""A folder of files by the names that zarr gives them, for ddict.zarr.FolderStore."""

import os
import threading


def _raise(error):
    raise error


class Folder:
    """Folder(path). Keys are the files' paths below it, with slashes."""

    def __init__(self, path):
        self.path = os.path.abspath(path)

    def _file(self, key):
        """The file of a key; None where a key cannot be the name of one below the folder"""
        return None if any(part in ("", ".", "..") for part in key.split("/")) else os.path.join(self.path, key)

    def has(self, key):
        file = self._file(key)
        return file is not None and os.path.isfile(file)

    def read(self, key, part=lambda whole: whole):
        """The bytes of the file, or those at part(range of all); None: there is no such file"""
        file = self._file(key)
        try:
            with open(file or self.path, "rb") as f:
                at = part(range(os.fstat(f.fileno()).st_size))
                f.seek(at.start)
                return f.read(len(at))
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def keys(self, prefix=""):
        """The keys that begin with prefix, each once it is asked for"""
        start = os.path.join(self.path, prefix.rpartition("/")[0])
        if prefix and not os.path.isdir(start):
            return
        for folder, folders, files in os.walk(start, onerror=_raise):
            folders.sort()
            for file in sorted(files):
                key = os.path.relpath(os.path.join(folder, file), self.path)
                if key.startswith(prefix):
                    yield key

    def for_each(self, call, threads):
        """call(key, bytes) for each file, by so many threads, which end with the program: None, or what the first one to fail has raised"""
        keys, lock, failed = self.keys(), threading.Lock(), []

        def work():
            try:
                while not failed:
                    with lock:
                        key = next(keys, None)
                    if key is None:
                        return
                    with open(os.path.join(self.path, key), "rb") as f:
                        data = f.read()
                    call(key, data)
            except Exception as e:
                failed.append(e)

        workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return failed[0] if failed else None
