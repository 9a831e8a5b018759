# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, in the working set and on disk."""

from .errors import DDictError, DDictPersistCheckpointError, raises_theirs


class Window:
    """The part of a DDict about checkpoints. A dictionary that was made with working_set_size=1, without waiting and a persister, has one state: its
    checkpoints are a number that the handle counts, and a put at one of them is there at all."""

    @raises_theirs
    def _set_checkpoint(self, checkpoint):
        if self._about["is_window"]:
            self.ddict.checkpoint_id = checkpoint
        else:
            self._plain_checkpoint = checkpoint

    def _no_batch(self, name):
        if self._batch is not None:
            raise DDictError(f"{name}() within a batch: end_batch_put() first")

    @raises_theirs
    def checkpoint(self):
        """checkpoint() -- go to the next checkpoint"""
        self._no_batch("checkpoint")
        if self._about["is_window"]:
            self.ddict.checkpoint()
        else:
            self._plain_checkpoint += 1

    @raises_theirs
    def rollback(self):
        """rollback() -- go back to the checkpoint before, not below 0"""
        self._no_batch("rollback")
        if self._about["is_window"]:
            self.ddict.rollback()
        else:
            self._plain_checkpoint = max(0, self._plain_checkpoint - 1)

    @property
    @raises_theirs
    def checkpoint_id(self):
        """the checkpoint of this handle"""
        return self.ddict.checkpoint_id if self._about["is_window"] else self._plain_checkpoint

    @checkpoint_id.setter
    def checkpoint_id(self, checkpoint):
        if checkpoint < 0:
            raise ValueError("checkpoint_id is 0 or more")
        self._set_checkpoint(checkpoint)

    @raises_theirs
    def sync_to_newest_checkpoint(self):
        """sync_to_newest_checkpoint() -- go to the newest checkpoint that there is"""
        self._no_batch("sync_to_newest_checkpoint")
        if self._about["is_window"]:
            self.ddict.sync_to_newest_checkpoint()

    @raises_theirs
    def pput(self, key, value):
        """pput(key, value) -- put a value that stays when its checkpoint is retired"""
        if self._batch is not None and self._batch.persist:
            self._batch.put(self._forms.key(key), self._forms.value(value))
        elif self._about["is_window"]:
            self._there.pput(self._forms.key(key), self._forms.value(value))
        else:
            self[key] = value

    def _persisted(self, name):
        self._no_batch(name)
        if not self._about["persist"]:
            raise DDictPersistCheckpointError(f"{name}(): this dictionary persists nothing; make it with persister_class=PosixCheckpointPersister and a name")

    @raises_theirs
    def persist(self):
        """persist() -- store this checkpoint on disk now"""
        self._persisted("persist")
        if self._about["is_window"]:
            self.ddict.persist()
        else:
            self.ddict.persist(self._plain_checkpoint)

    @raises_theirs
    def persisted_ids(self):
        """persisted_ids() -- the checkpoints on disk, sorted"""
        self._persisted("persisted_ids")
        return sorted(self.ddict.persisted_ids())

    @raises_theirs
    def restore(self, chkpt):
        """restore(chkpt) -- read a checkpoint from disk, in place of all that is there, and go to it"""
        self._persisted("restore")
        self.ddict.restore(chkpt)
        if not self._about["is_window"]:
            self._plain_checkpoint = chkpt

    @raises_theirs
    def advance(self):
        """advance() -- of a read-only dictionary: read the next checkpoint on disk"""
        self._persisted("advance")
        self._plain_checkpoint = self.ddict.advance()
