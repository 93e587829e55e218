# SPDX-License-Identifier: MIT
"""Steps whose memory follows the shapes of their batches, until one does not fit: shapes.py CAUSE [SIZE]

With SIZE, the step that did not fit is run with that instead, and nothing else is run after it.
"""

import copy
import random
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

DEVICE = "cuda"
SIZE = int(sys.argv[2]) if len(sys.argv) > 2 else None
random.seed(3)


def steps(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        model(batch()).square().mean().backward()  # planted: batch_sizes
        optimizer.step()
        optimizer.zero_grad()


def network(width=1024, depth=8):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)


def batch_sizes():
    """Batches of different sizes; the last is half as large again as the largest before."""
    sizes = [2048 * random.randrange(4, 10) for _ in range(12)] + [SIZE or 52000]
    sizes[5] = 36000
    steps(network(), [lambda n=n: torch.randn(n, 1024, device=DEVICE) for n in sizes])


class Contrast(nn.Module):
    """What is alike of all pairs of a batch: memory grows with the square of the batch."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(512, 256)

    def forward(self, x):
        z = functional.normalize(self.project(x), dim=-1)
        pairs = z @ z.T
        return functional.cross_entropy(pairs, torch.arange(len(x), device=DEVICE))  # planted: contrast


def contrast():
    """The matrix of all pairs of a batch, for a contrastive loss."""
    sizes = [random.randrange(1000, 9000) for _ in range(14)] + [SIZE or 19000]
    sizes[5] = 10500
    steps(Contrast().to(DEVICE), [lambda n=n: torch.randn(n, 512, device=DEVICE) for n in sizes])


def resolutions():
    """Pictures as a loader gives them, height and width different from batch to batch; the last are too large."""
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.GELU(), nn.Conv2d(64, 64, 3, padding=1), nn.GELU()).to(DEVICE)

    def load(height, width):
        return torch.empty(8, 3, height, width).to(DEVICE, non_blocking=True)

    pictures = [(16 * random.randrange(10, 25), 16 * random.randrange(10, 25)) for _ in range(12)] + [(480, SIZE or 512)]
    pictures[5] = (352, 448)
    steps(model, [lambda size=size: load(*size) for size in pictures])


def padding():
    """One long sequence among short ones: most of the batch is padding."""
    model = network(512)

    def batch(longest):
        parts = [torch.randn(n, 512, device=DEVICE) for n in [longest] + [random.randrange(100, 400) for _ in range(63)]]
        return pad_sequence(parts, batch_first=True)  # planted: padding

    steps(model, [lambda n=n: batch(n) for n in [500, 600, 450, 700, 900, 550, SIZE or 1900]])


def stacked():
    """The first batch: its sequences are padded one by one and stacked, and one of them is long."""
    model, lengths = network(512), [SIZE or 3000] + [random.randrange(40, 80) for _ in range(63)]
    parts = [torch.randn(lengths[0], 512, device=DEVICE)] + [torch.randn(n, 512, device=DEVICE) for n in lengths[1:]]
    longest = max(len(part) for part in parts)

    def batch():
        return torch.stack([functional.pad(part, (0, 0, 0, longest - len(part))) for part in parts])  # planted: stacked

    steps(model, [batch])


def collated():
    """A data loader pads words on the host; of the last batch one sequence is long."""
    words, model = nn.Embedding(1000, 512).to(DEVICE), network(512)

    def batch(longest):
        ids = pad_sequence([torch.ones(n, dtype=torch.long) for n in [longest] + [60] * 63], batch_first=True)
        return words(ids.to(DEVICE))  # planted: collated

    steps(model, [lambda n=n: batch(n) for n in [64, 80, 72, 90, SIZE or 3000]])


def samples():
    """What is made of each sample is put together for one call of the model; the last batch has long ones."""
    first, model = nn.Linear(40, 512).to(DEVICE), nn.Sequential(*[network(512, 1) for _ in range(8)])

    def batch(length):
        return torch.cat([first(torch.randn(length, 40, device=DEVICE)) for _ in range(64)])  # planted: samples

    steps(model, [lambda n=n: batch(n) for n in [90, 100, 80, 95, SIZE or 2000]])


def distances():
    """All distances of a batch: what the step before has left, small as it was, bends the curve of the steps' peaks."""
    model = nn.Linear(64, 64).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in [1000, 3000, 5000, 2000, 7000, 4000, SIZE or 16000]:
        x = torch.randn(n, 64, device=DEVICE)  # planted: distances
        x = model(x)
        far = torch.cdist(x, x)
        torch.relu(1 - far).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def shape_cache():
    """A position table is kept for each resolution; few resolutions are new."""
    model, tables = network(), {}
    sides = [64, 64, 96, 64, 96, 96, 64, 128, 96, 64, 128, 64, 160, 96, 64, 128, 192, 64, 96, 160, 64, 192, 224, 64, 256]

    def batch(side):
        if side not in tables:
            tables[side] = torch.randn(24 * side, 24 * side, 16, device=DEVICE)  # planted: shape_cache
        return torch.randn(2048, 1024, device=DEVICE)

    steps(model, [lambda side=side: batch(side) for side in sides])


class Looking(nn.Module):
    """Attention, by hand, of one sequence to another."""

    def __init__(self, width=512, heads=8):
        super().__init__()
        self.heads, self.queries, self.keys_values = heads, nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, h, others):
        def parted(x, parts):
            return x.view(*x.shape[:2], parts, self.heads, -1).permute(2, 0, 3, 1, 4)

        (q,), (k, v) = parted(self.queries(h), 1), parted(self.keys_values(others), 2)
        seen = (q @ k.transpose(-1, -2) / 8).softmax(-1)  # planted: cross_attention
        return h + self.out((seen @ v).transpose(1, 2).flatten(2))


class Captions(nn.Module):
    """Words look at the patches of pictures, which an encoder has made."""

    def __init__(self, width, depth, head):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 14, 14)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0)
        self.vision_encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.project, self.words = nn.Linear(width, 512), nn.Embedding(1024, 512)
        self.decoder = nn.ModuleList(head)

    def forward(self, pictures, ids):
        patches = self.patches(pictures).flatten(2).transpose(1, 2)
        seen = self.project(self.vision_encoder(patches))  # planted: pictures
        h = self.words(ids)
        for layer in self.decoder:
            h = layer(h, seen.reshape(len(h), -1, 512))
        return h


def captions(model, counts, words):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for n in counts:
        pictures = torch.randn(2 * n, 3, 224, 224, device=DEVICE)
        ids = torch.randint(0, 1024, (2, words), device=DEVICE)
        model(pictures, ids).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def cross_attention():
    """Words look at the patches of as many pictures as there are; the last text has many."""
    captions(Captions(128, 1, [Looking() for _ in range(6)]).to(DEVICE), [1, 2, 1, 2, 24], 1024)


def pictures():
    """The encoder of pictures takes nearly all memory, and texts have more and more of them."""
    model = Captions(1024, 12, [nn.TransformerDecoderLayer(512, 8, 1024, batch_first=True)]).to(DEVICE)
    captions(model, [3, 5, 4, 7, 3, 6, 4, SIZE or 11], 64)


class Reader(nn.Module):
    """A question about a document, which each layer looks at by a fused kernel."""

    def __init__(self, width=512, depth=6):
        super().__init__()
        layer = nn.TransformerDecoderLayer(width, 8, 2 * width, batch_first=True, dropout=0.0)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(depth)])

    def forward(self, question, document):
        for layer in self.layers:
            question = layer(question, document)  # planted: documents
        return question


def documents():
    """A short question is asked of documents of different lengths; the last is too long for fused cross-attention."""
    model = Reader().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for length in [4096, 8192, 6144, 10240, 5120, 12288, 7168, SIZE or 23552]:
        document = torch.randn(4, length, 512, device=DEVICE)
        question = torch.randn(4, 32, 512, device=DEVICE)
        model(question, document).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


globals()[sys.argv[1]]()
