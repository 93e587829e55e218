# SPDX-License-Identifier: MIT
"""Training loops that keep nothing from step to step, in ways that look like it: healthy.py KIND STEPS"""

import copy
import random
import sys
import tempfile
from collections import OrderedDict, deque

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

KIND, STEPS = sys.argv[1], int(sys.argv[2])
random.seed(1)


def network(width=512):
    return nn.Sequential(nn.Linear(width, 1024), nn.ReLU(), nn.Linear(1024, width), nn.Tanh(), nn.Linear(width, 16)).cuda()


def train(model, optimizer, batch=lambda step: torch.randn(256, 512, device="cuda"), each_step=lambda step: None):
    for step in range(STEPS):
        loss = model(batch(step)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each_step(step)


def adam(model, **how):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, **how)


def warm_up():
    """State that is made late: half of the network is frozen for the first steps, a buffer comes at the sixth."""
    model = network()
    for p in model[0].parameters():
        p.requires_grad_(False)

    def each_step(step):
        if step == 4:
            for p in model[0].parameters():
                p.requires_grad_(True)
        if step == 5:
            model.register_buffer("scale", torch.ones(1 << 20, device="cuda"))

    train(model, adam(model), each_step=each_step)


def evaluation():
    """Every fifth step is followed by an evaluation, whose numbers are kept; the best weights too."""
    model, scores, best = network(), [], {}

    def each_step(step):
        if step % 5 == 4:
            model.eval()
            with torch.no_grad():
                scores.append(sum(model(torch.randn(1024, 512, device="cuda")).mean().item() for _ in range(3)))
            model.train()
            best["weights"] = {name: value.clone() for name, value in model.state_dict().items()}

    train(model, adam(model), each_step=each_step)
    each_step(4)


def lengths():
    """Sequences of random lengths through an embedding and attention."""
    words = nn.Embedding(4096, 256).cuda()
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True).cuda()
    out = nn.Linear(256, 4096).cuda()
    model = nn.ModuleList([words, layer, out])
    optimizer = adam(model)
    for _ in range(STEPS):
        ids = torch.randint(0, 4096, (4, random.randrange(32, 512)), device="cuda")
        loss = functional.cross_entropy(out(layer(words(ids))).flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def curriculum():
    """Batches that are larger every fifth step, as a curriculum has them; none of it stays."""
    model = network()
    train(model, adam(model), lambda step: torch.randn(1024 + 2048 * (step // 5), 512, device="cuda"))


def longer():
    """A batch that is longer in each step; what the step before has made is there until it is made anew."""
    model = network()
    optimizer = adam(model)
    for step in range(STEPS):
        rows = torch.randn(1024 + 512 * step, 512, device="cuda")
        answer = model[:3](rows)
        loss = model[3:](answer).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def resolution():
    """Larger images in each step, and a head that never sees their size; the last features are there until the next."""
    features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()).cuda()
    head = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).cuda()
    optimizer = adam(nn.ModuleList([features, head]))
    for step in range(STEPS):
        images = torch.rand(4, 3, 40 + 4 * step, 40 + 4 * step, device="cuda")
        seen = features(images)
        head(seen.mean((2, 3))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def checkpoints():
    """Weights and optimizer state are saved every fourth step, and loaded again once."""
    model = network()
    optimizer = adam(model)

    with tempfile.NamedTemporaryFile() as file:

        def each_step(step):
            if step % 4 == 3:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file.name)
            if step == STEPS // 2:
                saved = torch.load(file.name)
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])

        train(model, optimizer, each_step=each_step)


def accumulation():
    """Four batches to a step."""
    model = network()
    optimizer = adam(model)
    for _ in range(STEPS):
        for _ in range(4):
            (model(torch.randn(128, 512, device="cuda")).square().mean() / 4).backward()
        optimizer.step()
        optimizer.zero_grad()


def allocator():
    """The caching allocator takes more and more from the driver: each batch is of a size that no free block fits."""
    model = network()
    sizes = sorted(random.sample(range(1 << 20, 1 << 25, 4096), STEPS))

    def batch(step):
        del_me = torch.empty(sizes[step], device="cuda")
        return torch.randn(256, 512, device="cuda") + 0 * del_me[:512]

    train(model, adam(model), batch)


def scheduler():
    """A schedule of the learning rate, a scaler that skips steps, a window of the latest losses."""
    model = network()
    optimizer = adam(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=STEPS + 1)
    scaler, window = torch.amp.GradScaler(init_scale=2.0**20, growth_interval=5), deque(maxlen=12)
    for _ in range(STEPS):
        with torch.autocast("cuda", torch.float16):
            loss = model(torch.randn(256, 512, device="cuda")).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        schedule.step()
        window.append(loss.detach())


def average():
    """An average of the weights, which begins at the tenth step, is replaced in each, and is looked at now and then."""
    model = network()
    kept = {}

    def each_step(step):
        if step == 10:
            kept["weights"] = copy.deepcopy(model)
        if step > 10:
            kept["weights"] = copy.deepcopy(kept["weights"])
            with torch.no_grad():
                torch._foreach_lerp_(list(kept["weights"].parameters()), list(model.parameters()), 0.1)

    train(model, adam(model, foreach=False), each_step=each_step)


class Rows(Dataset):
    def __len__(self):
        return 64 * STEPS

    def __getitem__(self, index):
        return torch.full((512,), float(index))


def loader():
    """Batches from a DataLoader with workers and pinned memory, copied without waiting."""
    model = network()
    batches = iter(DataLoader(Rows(), 64, num_workers=2, pin_memory=True, persistent_workers=True))
    train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
          lambda step: next(batches).to("cuda", non_blocking=True))


def masks():
    """A cache by length that is soon full."""
    model, cache = network(), {}

    def each_step(step):
        length = random.choice(range(128, 128 + 64 * 8, 64))
        if length not in cache:
            cache[length] = torch.ones(length, length, device="cuda")

    train(model, adam(model), each_step=each_step)


def finder():
    """A search for the learning rate: a run that is thrown away, after which weights and state are as before."""
    model = network()
    optimizer = adam(model)
    before = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    losses = []

    def raise_rate(step):
        for group in optimizer.param_groups:
            group["lr"] = 1e-7 * 1.5**step
        losses.append(1.0)

    train(model, optimizer, each_step=raise_rate)
    model.load_state_dict(before[0])
    optimizer.load_state_dict(before[1])
    train(model, optimizer)


def epochs():
    """Predictions are gathered until an epoch ends; the last one is cut short."""
    model, predictions = network(), []

    def each_step(step):
        with torch.no_grad():
            predictions.append(model(torch.randn(256, 512, device="cuda")))
        if step % 15 == 14:
            torch.cat(predictions).mean().item()
            predictions.clear()

    train(model, adam(model), each_step=each_step)


def serving():
    """No training: requests of random lengths, of which nothing stays."""
    model = network()
    with torch.no_grad():
        for _ in range(STEPS):
            model(torch.randn(random.randrange(16, 256), 512, device="cuda")).sum().item()


def generation():
    """No training: tokens one after another with a cache of keys and values, which is gone after them."""

    def generate():
        cache = torch.randn(2, 8, 8, 1, 64, device="cuda").unbind()
        for _ in range(STEPS):
            new = torch.randn(2, 8, 8, 1, 64, device="cuda")
            cache = [torch.cat([old, part], 2) for old, part in zip(cache, new)]
            answer = functional.scaled_dot_product_attention(new[0], *cache)
        return answer

    with torch.no_grad():
        print(generate().shape)


def sittings():
    """A server keeps the state of the last 30 sittings, each cut to its window: full long before the end."""
    layers, heads, width, window, most = 6, 4, 64, 1536, 30
    chance, states = random.Random(77), OrderedDict()

    class Server(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.ModuleList(nn.Linear(heads * width, 3 * heads * width) for _ in range(layers))

        def forward(self, x, keys, values):
            for at, layer in enumerate(self.project):
                q, k, v = layer(x).view(1, -1, 3, heads, width).permute(2, 0, 3, 1, 4)
                keys[at] = torch.cat([keys[at], k], dim=2)[:, :, -window:].contiguous()
                values[at] = torch.cat([values[at], v], dim=2)[:, :, -window:].contiguous()
                x = x + functional.scaled_dot_product_attention(q, keys[at], values[at]).transpose(1, 2).reshape_as(x)
            return x

    server = Server().half().cuda()

    def state():
        empty = torch.empty(1, heads, 0, width, dtype=torch.half, device="cuda")
        return [empty] * layers, [empty] * layers

    @torch.inference_mode()
    def call(sitting, length):
        if sitting in states:
            states.move_to_end(sitting)
        else:
            if len(states) == most:
                states.popitem(last=False)
            states[sitting] = state()
        server(torch.randn(1, length, heads * width, dtype=torch.half, device="cuda"), *states[sitting])

    for at in range(STEPS):
        is_long = chance.random() < 0.5
        sitting = chance.choice(range(14)) if is_long else -1 - max(0, at // 8 - chance.randrange(4))
        call(sitting, chance.randint(200, 800))


def loading():
    """A model is put on the GPU, layer by layer, and that is all."""
    layers = [nn.Linear(64, 64).cuda() for _ in range(STEPS)]
    assert len(layers) == STEPS


globals()[KIND]()
