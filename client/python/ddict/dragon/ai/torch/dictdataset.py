# SPDX-License-Identifier: Apache-2.0
"""Dragon's data set for PyTorch."""

import torch.utils.data

import ddict.dragon.data.ddict as _ddict

_AT_ONCE = 256  # samples that are put together


class DragonDataset(torch.utils.data.Dataset):
    """DragonDataset(dataset, *, dataset_keys=None, dragon_dict_args=None)

    Samples in a DDict. dataset is one that has them under dataset_keys; or any data set, whose samples go into a new one, which dragon_dict_args describes by its
    fields managers_per_node, n_nodes and total_mem, and stop() ends. ddict.torch.DDictDataset puts in parallel, and reads a batch at once with one call.
    """

    def __init__(self, dataset, *, dataset_keys=None, dragon_dict_args=None):
        self._is_own = dragon_dict_args is not None
        if dataset_keys is not None and not self._is_own:
            self.dict, self.keys = dataset, list(dataset_keys)
            return
        if not self._is_own:
            raise ValueError("DragonDataset() takes dataset_keys for a DDict that has the samples, or dragon_dict_args for a new one")
        args = dragon_dict_args
        self.dict = _ddict.DDict(args.managers_per_node, args.n_nodes, args.total_mem)
        n = 0
        self.dict.start_batch_put()
        for sample in dataset:
            self.dict[n] = sample
            n += 1
        self.dict.end_batch_put()
        self.keys = list(range(n))

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, idx):
        return self.dict[self.keys[idx]]

    def __getitems__(self, indices):
        return self.dict.get_many([self.keys[i] for i in indices])

    def stop(self):
        """stop() -- end the dictionary, if this data set made it"""
        if self._is_own:
            self.dict.destroy()
