# SPDX-License-Identifier: Apache-2.0
"""Data sets, samplers, checkpoints and torch.distributed's store for PyTorch, in the job's dictionary.

    from ddict.torch import DDictDataset, DataLoader, DistributedSampler

    data = DDictDataset(train_data, name="train")     # all ranks together put it once
    sampler = DistributedSampler(data)                # this rank's share, in an order that depends on seed and epoch
    loader = DataLoader(data, batch_size=64, sampler=sampler, num_workers=4)

All of this also works with torch's own DataLoader, with collate_fn=ddict.torch.collate or any other.

    torch.distributed.init_process_group("nccl", init_method="ddict://")     # the ranks meet in the dictionary: Store

import of this package makes ddict:// known to torch.distributed.
"""

import torch.distributed as _dist

from ._batch import Batch, collate
from .checkpoint import load, save
from .dataset import DDictDataset
from .device import get_to, register, unregister
from .images import ImageFolder, S3ImageFolder
from .iterable import DDictIterableDataset
from .loader import DataLoader
from .samplers import DistributedSampler, LocalSampler

if _dist.is_available():  # some builds of torch are without
    from . import rendezvous as _rendezvous
    from .store import Store, StoreError
    _rendezvous.register()

__all__ = ["Batch", "DDictDataset", "DDictIterableDataset", "DataLoader", "DistributedSampler", "ImageFolder", "LocalSampler", "S3ImageFolder", "Store",
           "StoreError", "collate", "get_to", "load", "register", "save", "unregister"]
if not _dist.is_available():
    __all__ = [name for name in __all__ if not name.startswith("Store")]
