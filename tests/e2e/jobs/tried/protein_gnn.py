# SPDX-License-Identifier: MIT
"""Message passing over protein graphs, one structure at a time, to predict a property of each."""

import torch
from torch import nn


class MessageLayer(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU())
        self.update = nn.GRUCell(dim, dim)

    def forward(self, h, src, dst):
        pairs = torch.cat([h[src], h[dst]], dim=-1)
        inbox = torch.zeros_like(h).index_add(0, dst, self.message(pairs))
        return self.update(inbox, h)


class ProteinNet(nn.Module):
    def __init__(self, dim=96, depth=3):
        super().__init__()
        self.residue = nn.Embedding(21, dim)
        self.layers = nn.ModuleList([MessageLayer(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 1)

    def forward(self, residues, src, dst):
        h = self.residue(residues)
        for layer in self.layers:
            h = layer(h, src, dst)
        return self.head(h.mean(dim=0))


# Residues and contacts of the structures, in the order of the list that came with them.
STRUCTURES = [(240 + 37 * (i % 9), 9_000 + 1_100 * (i % 7)) for i in range(40)]
STRUCTURES[29] = (41_000, 2_600_000)


def load(n_residues, n_contacts):
    residues = torch.randint(0, 21, (n_residues,), device="cuda")
    src = torch.randint(0, n_residues, (n_contacts,), device="cuda")
    dst = torch.randint(0, n_residues, (n_contacts,), device="cuda")
    return residues, src, dst


def main():
    net = ProteinNet().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-4)
    for n_residues, n_contacts in STRUCTURES:
        graph = load(n_residues, n_contacts)
        stability = torch.rand(1, device="cuda")
        loss = (net(*graph) - stability).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
