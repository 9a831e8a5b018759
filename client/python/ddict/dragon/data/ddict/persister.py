# SPDX-License-Identifier: Apache-2.0
"""Where persisted checkpoints are: in files, or nowhere."""

import os


class CheckpointPersister:
    """The base of a program's own persister in Dragon, which calls it in its managers. Managers here run no Python, so there are the two below alone."""


class NULLCheckpointPersister(CheckpointPersister):
    """Nothing is persisted."""


class PosixCheckpointPersister(CheckpointPersister):
    """Checkpoints are persisted as files, in the folder NAME of persist_path: `ddict save` has the same format."""


class DAOSCheckpointPersister(CheckpointPersister):
    """Refused: there is none for DAOS, whose folders (dfuse) PosixCheckpointPersister writes to."""


def folder(persister_class, persist_path, name):
    """The folder of the checkpoints; None: nothing is persisted"""
    if persister_class is None or persister_class is NULLCheckpointPersister:
        return None
    if persister_class is not PosixCheckpointPersister:
        raise ValueError(f"persister_class={persister_class.__name__}: managers write files, by PosixCheckpointPersister; for DAOS give the path of a folder that "
                         "dfuse mounts as persist_path")
    if not name:
        raise AttributeError("a dictionary that is persisted has a name, by which it is found again: DDict(..., name='...')")
    return os.path.join(os.path.abspath(persist_path or "."), name)
