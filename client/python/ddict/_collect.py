# SPDX-License-Identifier: Apache-2.0
"""The results of a run as files of a folder or objects of a bucket, for ResultsHandler.process_results()."""
import os

from . import Error
from ._s3 import Bucket


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

    def _parts(self, keys):
        """The versions of the parts and their bytes. Empty if one was removed meanwhile."""
        versions, data = [], []
        for key in sorted(keys):
            try:
                with self.d.view(key) as view:
                    versions.append((key, view.version))
                    data.append(bytes(view))
            except KeyError:
                return [], []
        return versions, data

    def write(self):
        """Returns how many files were written."""
        written = 0
        for path, keys in sorted(self._files().items()):
            try:
                self.check(path)
            except ValueError:
                raise Error(f"a result has the path {path!r}, which leads out of the folder") from None
            versions, data = self._parts(keys)
            if versions and self.seen.get(path) != versions:
                self.to.put(path, data[0] if len(data) == 1 else b"".join(data))
                self.seen[path] = versions
                written += 1
        return written
