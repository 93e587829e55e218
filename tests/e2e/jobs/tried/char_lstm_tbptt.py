# SPDX-License-Identifier: MIT
"""Character-level language model that reads books with truncated backpropagation through time."""

import torch
from torch import nn

VOCAB, HIDDEN, LAYERS, LANES = 128, 512, 2, 96


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 64)
        self.cells = nn.ModuleList([nn.LSTMCell(64, HIDDEN), nn.LSTMCell(HIDDEN, HIDDEN)])
        self.out = nn.Linear(HIDDEN, VOCAB)

    def forward(self, chars, state):
        logits = []
        for t in range(chars.shape[1]):
            x = self.embed(chars[:, t])
            for i, cell in enumerate(self.cells):
                state[i] = cell(x, state[i])
                x = state[i][0]
            logits.append(self.out(x))
        return torch.stack(logits, dim=1), state


def detach(state):
    return [tuple(part.detach() for part in layer) for layer in state]


def zero_state():
    zeros = torch.zeros(LANES, HIDDEN, device="cuda")
    return [(zeros, zeros) for _ in range(LAYERS)]


def chunks(length, bptt):
    text = torch.randint(0, VOCAB, (LANES, length + 1), device="cuda")
    for start in range(0, length, bptt):
        end = min(start + bptt, length)
        yield text[:, start:end], text[:, start + 1 : end + 1]


model = CharLSTM().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
bits_per_char = []

for book, length in enumerate([190, 330, 75, 260, 128]):
    state = zero_state()
    total, count = 0.0, 0
    for chars, following in chunks(length, bptt=28):
        state = detach(state)
        logits, state = model(chars, state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        total, count = total + loss.detach(), count + 1
    bits_per_char.append(total / count)
    print("book", book, "read in", count, "chunks")
