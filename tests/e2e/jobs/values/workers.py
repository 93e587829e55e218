# SPDX-License-Identifier: MIT
"""DataLoader workers of a process that uses the device: prints how many dispatch modes the forked workers have,
and how many it has itself."""

import json

import torch
from torch.utils.data import DataLoader, Dataset


class Modes(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.tensor(torch._C._len_torch_dispatch_stack())


torch.zeros(1, device="cuda")
loader = DataLoader(Modes(), batch_size=2, num_workers=2, multiprocessing_context="fork", pin_memory=True)
seen = [batch.cuda().tolist() for batch in loader]
print(json.dumps({"workers": seen, "parent": torch._C._len_torch_dispatch_stack()}))
