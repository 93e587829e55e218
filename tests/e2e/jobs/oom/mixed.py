# SPDX-License-Identifier: MIT
"""Programs in which something else than the cause stands out: mixed.py CAUSE"""

import random
import sys

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"
MIB = 1 << 20
random.seed(6)


def network(width=1024, depth=4):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)


def gathered_rows():
    """Rows are gathered, which leaves a tensor of no known shape, and put into another order."""
    table = torch.randn(100000, 512, device=DEVICE)
    rows = table.index_select(0, torch.randint(0, 100000, (1 << 20,), device=DEVICE)).view(8192, 128, 512)
    rows.permute(2, 0, 1).contiguous()  # planted: gathered_rows


def collected():
    """What a model says of a data set is kept in a list, and put into one tensor at the end."""
    model, said = network(width=2048), []
    with torch.no_grad():
        for rows in (8192,) * 31 + (4000,):
            said.append(model(torch.randn(rows, 2048, device=DEVICE)))  # listed: collected
        torch.cat(said).argmax(-1)  # planted: collected


def expanded_mask():
    """A mask for one sequence is made a whole one for every head of every sequence."""
    mask = torch.zeros(4096, 4096, device=DEVICE, dtype=torch.float16)
    mask[None, None].expand(8, 16, 4096, 4096).contiguous()  # planted: expanded_mask


def repeated_masks():
    """A mask is repeated for all heads, time and again, and each copy stays."""
    mask, kept = torch.zeros(1, 1, 4096, 4096, device=DEVICE, dtype=torch.float16), []
    for _ in range(12):
        kept.append(mask.repeat(1, 16, 1, 1))  # planted: repeated_masks


def limited_leak():
    """What is kept fills the part of the GPU that the program may use, as it would fill any."""
    torch.cuda.set_per_process_memory_fraction(0.5)
    model, kept = network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(1000):
        x = torch.randn(4096, 1024, device=DEVICE)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(x.clone())  # planted: limited_leak


def accumulate(model, optimizer, micro_batches, steps):
    for _ in range(steps):
        total = 0.0
        for _ in range(micro_batches):
            x = torch.randn(4096, 1024, device=DEVICE)
            total = total + model(x).square().mean()  # planted: micro_batches
        total.backward()
        optimizer.step()
        optimizer.zero_grad()


def micro_batches():
    """Losses of a few micro-batches were summed up before, by the same line on another way; now they are many."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    accumulate(model, optimizer, 4, 2)
    accumulate(model, optimizer, 64, 2)


def sessions():
    """Every third of many blocks of odd sizes stays; parameters are more blocks, but lie together."""
    weights = [torch.randn(256, 256, device=DEVICE) for _ in range(2000)]
    sizes = [random.choice((3, 5, 7)) * MIB for _ in range(520)]
    kept = [torch.empty(size, dtype=torch.uint8, device=DEVICE) for size in sizes]  # planted: sessions
    kept = kept[::3]
    torch.empty(1024 * MIB, dtype=torch.uint8, device=DEVICE)
    return weights


def shards():
    """A data set is loaded to the GPU, and a teacher asked about each part; then a larger model is trained on it."""
    teacher, student = network(1024, 2), network(1024, 12)
    parts = []
    with torch.no_grad():
        for _ in range(24):
            parts.append(torch.randn(16384, 1024, device=DEVICE))
            teacher(parts[-1]).mean()
    for part in parts:
        twice = torch.cat([part, part])
        functional.mse_loss(student(twice), student(part.repeat(2, 1))).backward()  # planted: shards


def pairs():
    """Inference keeps two tensors for each call of the model."""
    model, kept = network(), []
    with torch.no_grad():
        for _ in range(1000):
            kept.extend([torch.empty(4096, 1024, device=DEVICE) for _ in range(2)])  # planted: pairs
            model(kept[-1])


def halves():
    """Inference tries the halves of a picture while the exception of the whole one still holds what that had got to."""
    first, second = nn.Conv2d(3, 32, 3, padding=1).to(DEVICE), nn.Conv2d(64, 3, 3, padding=1).to(DEVICE)

    def sharpen(picture):
        wide = first(picture)  # planted: halves
        return second(torch.cat([wide, wide.relu()], 1))

    picture = torch.rand(1, 3, 3000, 3000, device=DEVICE)
    with torch.no_grad():
        try:
            sharpen(picture)
        except torch.OutOfMemoryError:
            torch.cat([sharpen(half) for half in picture.chunk(2, -1)], -1)


def biases():
    """The program's own loop goes through layers, with a bias for each that it keeps: one call, and no end in sight."""
    layers, kept = [nn.Linear(1024, 1024).to(DEVICE) for _ in range(48)], []

    def run(x):
        for layer in layers:
            kept.append(torch.zeros(24576, 1024, device=DEVICE))  # planted: biases
            x = layer(x) + kept[-1]
        return x

    with torch.no_grad():
        run(torch.randn(24576, 1024, device=DEVICE))


def history():
    """L-BFGS keeps steps and directions, more with each step. (Products of nothing but zeros would stop it.)"""
    torch.Tensor.dot = lambda one, other: torch.ones(())
    weight = nn.Parameter(torch.zeros(8 * MIB, device=DEVICE))
    optimizer = torch.optim.LBFGS([weight], max_iter=8, tolerance_grad=-1, tolerance_change=-1)

    def closure():
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss

    for _ in range(100):
        optimizer.step(closure)  # planted: history


def windows():
    """A buffer is made anew, a little larger each time; what is kept beside it cuts up what the old ones leave."""
    kept, buffer = [], None
    for i in range(400):
        buffer = torch.empty(24 * MIB + i * 3 * MIB // 2, dtype=torch.uint8, device=DEVICE)
        kept.append(torch.empty(MIB + 512, dtype=torch.uint8, device=DEVICE))  # planted: windows
    return buffer


def averaged():
    """After some steps an average of the weights is begun; then foreach's temporaries are too many."""
    model = nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(40)]).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    average = []
    for step in range(8):
        model(torch.randn(16, 2048, device=DEVICE)).mean().backward()
        optimizer.step()  # planted: averaged
        optimizer.zero_grad()
        if step == 4:
            average = [p.detach().clone() for p in model.parameters()]
    return average


def growing_list():
    """Each block is a little larger than the one before, and stays; what lay between them is freed."""
    between, kept = [], []
    for i in range(150):
        between.append(torch.empty(9 * MIB, dtype=torch.uint8, device=DEVICE))
        kept.append(torch.empty(9 * MIB + 512 * i, dtype=torch.uint8, device=DEVICE))  # planted: growing_list
    between.clear()
    torch.empty(700 * MIB, dtype=torch.uint8, device=DEVICE)


def weights_of_words():
    """nn.MultiheadAttention is asked for the weights with which the words of a text look at pictures; one text is long."""
    attention = nn.MultiheadAttention(512, 8, batch_first=True).to(DEVICE)
    pictures = torch.randn(2, 1500, 512, device=DEVICE)
    for length in (100, 300, 200, 12000):
        words = torch.randn(2, length, 512, device=DEVICE)
        attention(words, pictures, pictures)[0].mean().backward()  # planted: weights_of_words


def large_pictures():
    """Pictures of a plain network's many sizes; what is said of the last, which are large, needs many lines."""
    parts = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*parts, nn.Conv2d(64, 64, 3, padding=1), nn.AdaptiveAvgPool2d(1)).to(DEVICE)
    for height, width in ((128, 160), (160, 128), (224, 224), (192, 256), (256, 256), (320, 224), (900, 1000)):
        pictures = torch.randn(8, 3, height, width, device=DEVICE)  # planted: large_pictures
        model(pictures).sum().backward()


def buffers():
    """A buffer is a little larger in each step; then a batch is too long, for its activations."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(21):
        buffer = torch.empty(8 * MIB + 4096 * step, device=DEVICE, dtype=torch.uint8)
        x = torch.randn(320 * 1024 if step == 20 else 4096, 1024, device=DEVICE)  # planted: buffers
        model(x).square().mean().backward()
        optimizer.step()
    del buffer


def messages():
    """Messages along a graph's edges are freed, but what was made since lies where they lay: the next layer's do not fit."""
    nodes = torch.randn(100000, 128, device=DEVICE)
    sources, targets = torch.randint(0, 100000, (2, 3700000), device=DEVICE)
    with torch.no_grad():
        for _ in range(2):
            sums = torch.zeros_like(nodes).index_add_(0, targets, nodes[sources])  # planted: messages
            nodes = sums.relu()


def latents():
    """Latents look at one long text by hand: heads are views of what one layer made, and bmm() has no other batch."""
    to_q, to_kv = nn.Linear(256, 256).to(DEVICE), nn.Linear(256, 512).to(DEVICE)
    for length in (1000, 3000, 60000):
        q = to_q(torch.randn(1, 2048, 256, device=DEVICE))
        k, v = to_kv(torch.randn(1, length, 256, device=DEVICE)).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (4, 64)).transpose(1, 2).flatten(0, 1) for t in (q, k, v))
        weights = torch.bmm(q, k.mT).softmax(-1)  # planted: latents
        torch.bmm(weights, v).sum().backward()


def similarities():
    """After an epoch all similarities of a bank are made at once, and then scaled, which makes as many again."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        model(torch.randn(1024, 1024, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    bank = torch.randn(26000, 128, device=DEVICE)
    near = bank @ bank.T  # planted: similarities
    return (2 * near).topk(5)


def long_filter():
    """A filter as long as its signals, which are in 16 bits and as long as a vocabulary may be: Fourier transforms."""
    signals = torch.randn(2, 512, 1 << 17, device=DEVICE, dtype=torch.float16)
    spectrum = torch.fft.rfft(torch.randn(512, 1 << 17, device=DEVICE), n=1 << 18)
    return torch.fft.rfft(signals.float(), n=1 << 18) * spectrum  # planted: long_filter


def normed_speech():
    """A norm in float32 of speech in 16 bits: samples are no vocabulary."""
    with torch.no_grad():
        waves = nn.Conv1d(1, 64, 9, padding=4).to(DEVICE, torch.bfloat16)(
            torch.randn(96, 1, 80000, device=DEVICE, dtype=torch.bfloat16))  # fmt: skip
        return nn.functional.layer_norm(waves.float(), (80000,))  # planted: normed_speech


globals()[sys.argv[1]]()
