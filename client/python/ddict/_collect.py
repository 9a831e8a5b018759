# SPDX-License-Identifier: Apache-2.0
"""The results of a run as files of a folder or objects of a bucket, for ResultsHandler.process_results()."""
import os

from . import Error, KeyLostError
from ._s3 import Bucket


class _PathError(Error):
    pass


class Folder:
    def __init__(self, path):
        self.path = path

    def put(self, path, data):
        """The file is a whole one at any time."""
        to = os.path.join(self.path, path)
        folder, name = os.path.split(to)
        os.makedirs(folder, exist_ok=True)
        aside = os.path.join(folder, f".ddict-{os.getpid()}-{name[:200]}")
        try:
            with open(aside, "wb") as f:
                f.write(data)
            os.replace(aside, to)
        except BaseException:
            if os.path.exists(aside):
                os.unlink(aside)
            raise


class Writer:
    """Writer(d, start, prefix, check): write() brings what is below prefix up to date with the keys that begin with start; check raises ValueError for a path that is none."""

    def __init__(self, d, start, prefix, check):
        prefix = os.fspath(prefix)
        self.d, self.start, self.check, self.seen = d, start, check, {}
        self.to = Bucket(prefix) if prefix.startswith("s3://") else Folder(prefix)

    def _files(self):
        """{path: its keys}. A path that is appended to has a key for each part, with a NUL in front; in their order the parts make the file."""
        files = {}
        for key in self.d.keys(self.start):
            files.setdefault(key[len(self.start):].partition("\0")[0], []).append(key)
        return files

    def _versions(self, keys):
        return [(key, self.d.version(key)) for key in sorted(keys)]

    def _write_file(self, path, keys):
        """Whether it was written: something changed, and no part was removed meanwhile."""
        try:
            self.check(path)
        except ValueError:
            raise _PathError(f"a result has the path {path!r}, which leads out of the folder") from None
        if self.seen.get(path) == self._versions(keys):
            return False
        versions, data = [], []
        for key in sorted(keys):
            try:
                with self.d.view(key) as view:
                    versions.append((key, view.version))
                    data.append(bytes(view))
            except KeyLostError:
                raise
            except KeyError:
                return False
        self.to.put(path, data[0] if len(data) == 1 else b"".join(data))
        self.seen[path] = versions
        return True

    def write(self):
        """Returns how many files were written. The first error is raised when the others are."""
        written, failed = 0, None
        for path, keys in sorted(self._files().items()):
            try:
                written += self._write_file(path, keys)
            except (_PathError, KeyLostError, FileExistsError, IsADirectoryError, NotADirectoryError) as e:  # of this file alone
                failed = failed or e
        if failed:
            raise failed
        return written
