# SPDX-License-Identifier: MIT
"""Training from DataLoaders: worker processes started by fork and by spawn, pinned memory, prefetching."""

import torch
from torch.utils.data import DataLoader, Dataset

from ledger import print_ledger


class Rows(Dataset):
    """Rows that worker processes make; each is told apart by its first number."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((256,), float(index)), index % 10


if __name__ == "__main__":
    net = torch.nn.Linear(256, 10).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for context in ("fork", "spawn"):
        workers = {"num_workers": 2, "multiprocessing_context": context, "persistent_workers": True}
        loader = DataLoader(Rows(), batch_size=8, pin_memory=True, **workers)
        for x, target in loader:
            assert x.is_pinned() and int(x[0, 0]) % 8 == 0
            loss = torch.nn.functional.cross_entropy(net(x.cuda(non_blocking=True)), target.cuda(non_blocking=True))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        del loader
    print_ledger()
