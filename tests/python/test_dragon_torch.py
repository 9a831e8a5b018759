# SPDX-License-Identifier: Apache-2.0
"""ddict.dragon.DragonDataset under torch's DataLoader."""

import importlib.util
import types
import unittest

from ddict.dragon import DDictError


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch")
class Dataset(unittest.TestCase):
    def test_a_data_set_of_its_own_and_one_of_the_user_s(self):
        import torch
        from ddict.dragon import DragonDataset
        from ddict.dragon.ai.torch.dictdataset import DragonDataset as same
        self.assertIs(DragonDataset, same)
        args = types.SimpleNamespace(managers_per_node=1, n_nodes=1, total_mem=32 << 20)
        data = DragonDataset([(torch.full((1, 4), float(i)), i) for i in range(50)], dragon_dict_args=args)
        loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2)
        self.assertEqual([label for _, labels in loader for label in labels.tolist()], list(range(50)))
        self.assertEqual((len(data), data[3][0].tolist()), (50, [[3.0] * 4]))
        view = DragonDataset(data.dict, dataset_keys=[4, 5])
        self.assertEqual((len(view), view[1][1]), (2, 5))
        view.stop()
        self.assertEqual(data[0][1], 0)
        data.stop()
        self.assertRaises((ValueError, DDictError), data.__getitem__, 0)
        self.assertRaises(ValueError, DragonDataset, [1])


if __name__ == "__main__":
    unittest.main()
