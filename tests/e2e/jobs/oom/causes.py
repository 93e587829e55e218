# SPDX-License-Identifier: MIT
"""Small programs that run out of memory, each for a reason of its own at a line that says so: causes.py CAUSE"""

import sys

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"
MIB = 1 << 20


def network(width=1024, depth=4):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)


def train(model, optimizer, rows=1024, width=1024):
    x = torch.randn(rows, width, device=DEVICE)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def too_big():
    """More than the device has, at once."""
    model = network()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    torch.empty(5000 * MIB, dtype=torch.uint8, device=DEVICE)  # planted: too_big


def model_too_big():
    """Parameters alone do not fit, layer after layer."""
    layers = []
    for _ in range(40):
        layers.append(nn.Linear(8192, 8192, device=DEVICE))  # planted: model_too_big
    return nn.Sequential(*layers)


def leak():
    """Statistics of each step are kept, without their graph."""
    model = network()
    optimizer, history = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(1000):
        train(model, optimizer)
        with torch.no_grad():
            history.append(torch.cat([p.flatten() for p in model.parameters()]).repeat(4))  # planted: leak


def growing_tensor():
    """One tensor grows by concatenation."""
    model = network()
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.1), torch.empty(0, 1024, device=DEVICE)
    for _ in range(1000):
        train(model, optimizer)
        seen = torch.cat([seen, torch.randn(16384, 1024, device=DEVICE)])  # planted: growing_tensor


def graph_retention():
    """The sum of losses keeps the graph of every batch; backward comes too late."""
    model, total = network(), 0
    for _ in range(1000):
        x = torch.randn(8192, 1024, device=DEVICE)
        total = total + model(x).square().mean()  # planted: graph_retention
    total.backward()


def kept_graphs():
    """Each step's outputs are kept with the graph that made them."""
    model, kept = network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(1000):
        output = model(torch.randn(8192, 1024, device=DEVICE))  # planted: kept_graphs
        output.square().mean().backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        kept.append(output)


def retained_graph():
    """Losses are summed up with their graphs, which retain_graph=True leaves as they are."""
    model, total = network(), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(1000):
        loss = model(torch.randn(8192, 1024, device=DEVICE)).square().mean()  # planted: retained_graph
        total = total + loss
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


def auxiliary():
    """What a second head makes of each batch is kept with its graph; backward goes through the first one alone."""
    model, head, kept = network(), network(depth=2), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(1000):
        x = torch.randn(8192, 1024, device=DEVICE)
        kept.append(head(x))  # planted: auxiliary
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def evaluation():
    """Training is fine; evaluation takes larger batches, without no_grad, and keeps what it gets."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        train(model, optimizer)
    model.eval()
    outputs = []
    for _ in range(1000):
        outputs.append(model(torch.randn(8192, 1024, device=DEVICE)))  # planted: evaluation


def predictions():
    """Evaluation runs under no_grad, and keeps the outputs of all its batches."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        train(model, optimizer)
    with torch.no_grad():
        return [model(torch.randn(16384, 1024, device=DEVICE)) for _ in range(1000)]  # planted: predictions


def validate(model):
    return model(torch.randn(131072, 1024, device=DEVICE)).argmax()  # planted: one_evaluation


def one_evaluation():
    """A single large batch is evaluated without no_grad."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        train(model, optimizer)
    validate(model)


def order(model):
    return model(torch.randn(131072, 1024, device=DEVICE)).argsort()  # planted: ranked


def ranked():
    """A model in evaluation mode, without no_grad: no name of a function, and no second call, says what it is for."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        train(model, optimizer)
    model.eval()
    order(model)


def spike():
    """Once, a matrix of all distances is made beside an ordinary loop."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(20):
        train(model, optimizer)
        points = torch.randn(30720 if i == 15 else 2048, 64, device=DEVICE)
        near = torch.cdist(points, points)  # planted: spike
        near.amin()


def long_batch():
    """One batch is longer than all before."""
    model = network(depth=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(20):
        x = torch.randn(65536 if i == 12 else 4096, 1024, device=DEVICE)  # planted: long_batch
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class Attention(nn.Module):
    """Attention as it is written down, with its matrix."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, h):
        b, t, w = h.shape
        q, k, v = self.qkv(h).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5  # planted: attention_matrix
        weights = scores.softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, w))


def attention_matrix():
    """Attention by hand; the third batch is long."""
    model = nn.Sequential(*[Attention(512, 8) for _ in range(8)]).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for length in (512, 1024, 4096):
        model(torch.randn(2, length, 512, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def lone_sequence():
    """Attention by hand of one sequence at a time: queries and keys are views of what one layer made."""
    model = nn.Sequential(*[Attention(512, 8) for _ in range(8)]).to(DEVICE)
    for length in (512, 1024, 5120):
        model(torch.randn(1, length, 512, device=DEVICE)).square().mean().backward()
        model.zero_grad()


class Tokens(nn.Module):
    def __init__(self, vocabulary=65536, width=512):
        super().__init__()
        self.words, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        self.mix = nn.Linear(width, width)

    def forward(self, ids):
        return self.head(functional.gelu(self.mix(self.words(ids))))


def square_attention():
    """One head by hand, in a class of another name, of sequences as long as their states are wide."""

    class Mix(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key = nn.Linear(512, 64), nn.Linear(512, 64)

        def forward(self, h):
            q, k = self.query(h), self.key(h)
            return h + functional.normalize(q @ k.transpose(1, 2), dim=-1) @ h  # planted: square_attention

    model = nn.Sequential(*[Mix() for _ in range(8)]).to(DEVICE)
    for batch in (2, 4, 160):
        model(torch.randn(batch, 512, 512, device=DEVICE)).square().mean().backward()
        model.zero_grad()


def bottleneck():
    """Hidden states as wide as their sequence is long, through narrow layers: no attention."""

    class Adapter(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.Linear(512, 64), nn.Linear(64, 512)

        def forward(self, h):
            return h + self.up(torch.relu(self.down(h)))  # planted: bottleneck

    model = nn.Sequential(*[Adapter() for _ in range(40)]).to(DEVICE)
    for batch in (8, 16, 96):
        model(torch.randn(batch, 512, 512, device=DEVICE)).square().mean().backward()
        model.zero_grad()


def logits_fp32():
    """The logits of a large vocabulary in bf16 are turned into fp32 for the loss."""
    model = Tokens().to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in (512, 1024, 8192):
        ids = torch.randint(0, 65536, (rows,), device=DEVICE)
        logits = model(ids).float()  # planted: logits_fp32
        functional.cross_entropy(logits, ids).backward()
        optimizer.step()
        optimizer.zero_grad()


def user_limit():
    """The process may use a quarter of the device."""
    torch.cuda.set_per_process_memory_fraction(0.25)
    kept = []
    for _ in range(100):
        kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device=DEVICE))  # planted: user_limit


def non_torch():
    """A library, here the program itself, takes memory from the driver beside PyTorch."""
    import ctypes

    runtime = ctypes.CDLL(None)
    torch.zeros(1, device=DEVICE)
    pointer = ctypes.c_void_p()
    for _ in range(2):
        assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1024 * MIB)) == 0  # planted: non_torch
    return [torch.empty(256 * MIB, dtype=torch.uint8, device=DEVICE) for _ in range(8)]


def fragmentation():
    """Every second of many blocks is freed; what is left is in no one piece."""
    kept = [torch.empty(3 * MIB, dtype=torch.uint8, device=DEVICE) for _ in range(1000)]  # planted: fragmentation
    del kept[::2]
    torch.empty(1024 * MIB, dtype=torch.uint8, device=DEVICE)


def kv_cache():
    """Keys and values of each layer grow with each step of a generation."""
    layers = [nn.Linear(1024, 3072, device=DEVICE, dtype=torch.float16) for _ in range(8)]
    cache = [None] * len(layers)
    with torch.no_grad():
        h = torch.randn(64, 256, 1024, device=DEVICE, dtype=torch.float16)
        for _ in range(5000):
            for i, layer in enumerate(layers):
                q, k, v = layer(h).view(64, -1, 3, 8, 128).permute(2, 0, 3, 1, 4)
                if cache[i]:
                    k = torch.cat([cache[i][0], k], dim=2)  # planted: kv_cache
                    v = torch.cat([cache[i][1], v], dim=2)
                cache[i] = (k, v)
            h = torch.randn(64, 32, 1024, device=DEVICE, dtype=torch.float16)


def optimizer_state():
    """What Adam keeps for each parameter does not fit beside parameters and gradients."""
    model = network(width=8192, depth=5)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(16, 8192, device=DEVICE)).square().mean().backward()
    optimizer.step()  # planted: optimizer_state


def optimizer_temporaries():
    """All state is there; the temporaries of a step over all parameters at once do not fit."""
    model = network(width=4096, depth=12)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    model(torch.randn(16, 4096, device=DEVICE)).square().mean().backward()
    optimizer.step()  # planted: optimizer_temporaries


def fft_upcast():
    """A convolution by Fourier transform, in fp16, whose spectrum is complex64 of twice the length."""
    signal = torch.randn(128, 1 << 20, device=DEVICE, dtype=torch.float16)
    torch.fft.rfft(signal.float(), n=1 << 21)  # planted: fft_upcast


def contiguous_copy():
    """What was gathered is transposed for good."""
    table = torch.randn(65536, 1024, device=DEVICE)
    rows = table[torch.randint(0, 65536, (524288,), device=DEVICE)].view(512, 1024, 1024)
    rows.transpose(0, 2).contiguous()  # planted: contiguous_copy


def attempt(model, rows):
    model(torch.randn(rows, 1024, device=DEVICE)).square().mean().backward()  # planted: traceback


def traceback():
    """A smaller batch is tried while the exception of the larger one still holds it."""
    model = network(depth=8)
    try:
        attempt(model, 60000)
    except torch.OutOfMemoryError:
        attempt(model, 30000)


class Published(nn.Module):
    """A layer as PyTorch has it, with weights of attention asked for."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(512, 8, batch_first=True)

    def forward(self, h):
        return h + self.attention(h, h, h, need_weights=True)[0]  # planted: published_attention


def published_attention():
    """nn.MultiheadAttention that is asked for its weights, in the first step."""
    model = nn.Sequential(*[Published() for _ in range(12)]).to(DEVICE)
    model(torch.randn(2, 3072, 512, device=DEVICE)).square().mean().backward()


def shifted_logits():
    """As transformers does it: upcast, shift, flatten, cross entropy."""
    model = Tokens(32000).to(DEVICE, torch.bfloat16)
    for length in (128, 256, 512, 4096):
        ids = torch.randint(0, 32000, (2, length), device=DEVICE)
        logits = model(ids).float()  # planted: shifted_logits
        shifted = logits[..., :-1, :].contiguous().view(-1, 32000)
        functional.cross_entropy(shifted, ids[..., 1:].reshape(-1)).backward()
        model.zero_grad()


def handled():
    """The batch that fits is found by trying; training then goes on."""
    model = network()
    optimizer, rows = torch.optim.SGD(model.parameters(), lr=0.1), 1 << 21
    while rows:
        try:
            train(model, optimizer, rows)
            break
        except torch.OutOfMemoryError:
            rows //= 2
    for _ in range(5):
        train(model, optimizer, rows // 2)


def handled_then_leak():
    """Some failures are handled; the last is none of them."""
    handled()
    leak()


def other_process():
    """Another process holds most of the device."""
    import subprocess

    other = "import torch\nkept = torch.empty(2 << 30, dtype=torch.uint8, device='cuda')\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            torch.empty(1536 * MIB, dtype=torch.uint8, device=DEVICE)  # planted: other_process
        finally:
            process.stdin.close()


def plain_batch():
    """The first batch is too large for its activations: nothing is wrong but the sum."""
    model = network(depth=8)
    model(torch.randn(65536, 1024, device=DEVICE)).square().mean().backward()  # planted: plain_batch


def images():
    """A convolutional network on square images: its planes are no attention matrices."""
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())
    model = model.to(DEVICE)
    for size in (64, 64, 512):
        model(torch.randn(16, 3, size, size, device=DEVICE)).softmax(1).mean().backward()  # planted: images


def recurrent():
    """A cell unrolled over a sequence that is too long: many calls, but of one batch."""
    cell, out = nn.GRUCell(1024, 1024, device=DEVICE), nn.Linear(1024, 16, device=DEVICE)
    x = torch.randn(400, 1024, 1024, device=DEVICE)
    h = torch.zeros(1024, 1024, device=DEVICE)
    for t in range(len(x)):
        h = cell(x[t], h)  # planted: recurrent
    out(h).mean().backward()


def replay():
    """The last batches are kept in a ring, on purpose; then the model is copied once too often."""
    from collections import deque

    model, ring = network(), deque(maxlen=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(60):
        ring.append(torch.randn(32768, 1024, device=DEVICE))
        train(model, optimizer)
    return [torch.empty(512 * MIB, dtype=torch.uint8, device=DEVICE) for _ in range(8)]  # planted: replay


def accumulation():
    """Four backward passes to a step, as it should be; the model is too large for Adam."""
    model = network(width=4096, depth=14)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(2):
        for _ in range(4):
            (model(torch.randn(64, 4096, device=DEVICE)).square().mean() / 4).backward()
        optimizer.step()  # planted: accumulation
        optimizer.zero_grad()


def curriculum():
    """Sequences become longer from step to step until one is too long."""
    model = network(depth=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(1, 100):
        x = torch.randn(4096 * i, 1024, device=DEVICE)
        model(x).square().mean().backward()  # planted: curriculum
        optimizer.step()
        optimizer.zero_grad()


def sorted_batches():
    """Evaluation under no_grad of batches sorted by length: they grow, but nothing is kept."""
    model = network(depth=8)
    with torch.no_grad():
        for i in range(1, 40):
            h = torch.randn(64, 37 * i + i * i, 1024, device=DEVICE)
            states = []
            for part in model:
                h = part(h)  # planted: sorted_batches
                states.append(h)


def two_models():
    """The second network's first forward, after the first one's backward, in a function with a telling name."""
    first, second = network(), network(depth=8)
    first(torch.randn(1024, 1024, device=DEVICE)).square().mean().backward()

    def predict_noise(rows):
        return second(torch.randn(rows, 1024, device=DEVICE)).square().mean()  # planted: two_models

    predict_noise(60000).backward()


def long_document():
    """Documents of a page or two; one of them is a book."""
    model = nn.Sequential(*[Attention(256, 8) for _ in range(4)]).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for i in range(40):
        pages = torch.randn(4, 8 * (700 if i == 30 else 20 + 7 * i % 40), 256, device=DEVICE)  # planted: long_document
        model(pages).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


globals()[sys.argv[1]]()
