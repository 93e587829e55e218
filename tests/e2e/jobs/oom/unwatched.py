# SPDX-License-Identifier: MIT
"""Programs that run out of memory for what happens where nobody looks, in a pool, a transform or an optimizer: unwatched.py CAUSE"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import copy
import functools
import queue
import random
import sys
import threading
import weakref
from typing import NamedTuple

import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

DEVICE = "cuda"
random.seed(5)


def network(width=1024, depth=4):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)


class Canvas(nn.Module):
    def __init__(self):
        super().__init__()
        self.texels = nn.Parameter(torch.zeros(12000, 1024, device=DEVICE))  # planted: canvases

    def forward(self, rows):
        return functional.embedding(rows, self.texels)


def canvases():
    """A few canvases are painted at a time, each for as long as it takes; the optimizer keeps those that are done."""
    brush, easel = network(), {}
    optimizer = torch.optim.Adam(brush.parameters())
    for i in range(400):
        while len(easel) < 3:
            canvas = Canvas()  # called: canvases
            easel[canvas] = random.randrange(4, 9)
            optimizer.add_param_group({"params": list(canvas.parameters())})
        for canvas in list(easel):
            brush(canvas(torch.randint(12000, (64,), device=DEVICE))).square().mean().backward()
            easel[canvas] -= 1
            if not easel[canvas]:
                del easel[canvas]
        optimizer.step()
        optimizer.zero_grad()


def chunks():
    """Gradients of each sample are computed 8 at a time, and put together for all of them before any is used."""
    model = nn.Sequential(nn.Linear(256, 1024), network(1024, 5), nn.Linear(1024, 512)).to(DEVICE)

    def loss(weights, row):
        return torch.func.functional_call(model, weights, (row[None],)).square().mean()  # planted: chunks

    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    each = torch.func.vmap(torch.func.grad(loss), (None, 0), chunk_size=8)
    return each(weights, torch.randn(256, 256, device=DEVICE))  # called: chunks


def threes():
    """Each three of a batch are compared: a larger batch takes the third power of it."""
    model = network(256)
    for step in range(60):
        x = model(torch.randn(780 if step == 50 else 300, 256, device=DEVICE))
        kinds = torch.arange(len(x), device=DEVICE) // 4
        same, apart = kinds[:, None] == kinds[None, :], (2 - 2 * x @ x.t()).clamp_min(1e-6).sqrt()
        counts = same[:, :, None] & ~same[:, None, :]
        worse = (apart[:, :, None] - apart[:, None, :] + 0.2).relu()  # planted: threes
        (worse * counts).mean().backward()


def hindcast(model, i):
    waves = model(torch.randn(8192, 1024, device=DEVICE))  # planted: hindcasts
    return {"day": i, "mean": float(waves.mean()), "waves": waves}


def hindcasts():
    """What a pool has computed is waited for one day after the other; the futures of all days are in a list."""
    model, days = network().eval(), []
    with torch.no_grad(), concurrent.futures.ThreadPoolExecutor(1) as pool:
        for i in range(500):
            with torch.inference_mode():
                days.append(pool.submit(hindcast, model.requires_grad_(False), i))
            days[-1].result()


class Seat:
    """What is known of a guest: a table of keys, and one of values."""

    def __init__(self):
        self.keys = [torch.zeros(256, 1024, device=DEVICE) for _ in range(12)]  # planted: seats
        self.values = [torch.zeros(256, 1024, device=DEVICE) for _ in range(12)]


def seats():
    """Guests stay for some calls each; what is known of them is never let go of, and one of its two lines is the last."""
    model, known, guest = network().eval(), {}, 0
    with torch.no_grad():
        while True:
            known[guest] = Seat()
            for _ in range(random.randrange(2, 7)):
                model(torch.randn(256, 1024, device=DEVICE) + known[guest].keys[0])
            guest += 1


def weigh(model, recent):
    recent.append(model(torch.randn(2048, 1024, device=DEVICE)))  # planted: scales


def scales():
    """The main thread has switched gradients off, for itself alone: in those of the pool a model that evaluates makes graphs."""
    model, recent = network(1024, 12).eval(), []
    torch.set_grad_enabled(False)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for _ in range(500):
            pool.submit(weigh, model, recent).result()


def thinned():
    """Every third of what was computed is kept, each in a segment with two that are gone."""
    model, kept = network().eval(), []
    with torch.no_grad():
        for i in range(480):
            kept.append(model(torch.randn(1664, 1024, device=DEVICE)))  # planted: thinned
        kept = kept[::3]
        return kept, torch.zeros(2300 << 18, device=DEVICE)


class Guard:
    good = None


def copies():
    """Every tenth step all is copied, and stays on the GPU: the copy before is let go of when the next one has been made."""
    model, guard = network(2048, 26), Guard()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for step in range(40):
        model(torch.randn(64, 2048, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 9:
            guard.good = copy.deepcopy([model.state_dict(), optimizer.state_dict()])  # planted: copies


def directions():
    """A model that was trained is looked into: each direction of its curvature keeps the graph of the pass it was computed in."""
    model, rows = network(512, 6), torch.randn(2048, 512, device=DEVICE)
    weights = list(model.parameters())
    optimizer = torch.optim.SGD(weights)
    for _ in range(20):
        model(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    basis = [[torch.randn_like(weight) for weight in weights]]
    for _ in range(200):
        slopes = torch.autograd.grad(model(rows).square().mean(), weights, create_graph=True)  # planted: directions
        bends = torch.autograd.grad(slopes, weights, basis[-1], create_graph=True)
        basis.append([bend / (bend.norm() + 1) for bend in bends])


def glow(model, n):
    return model(torch.randn(n, 1024, device=DEVICE)).mean().item()  # planted: lamps


def lamps():
    """Gradients are off in the main thread, where the largest request is tried out; those of the pool save all for backward."""
    model = network(1024, 24).eval()
    torch.set_grad_enabled(False)
    model(torch.randn(40000, 1024, device=DEVICE))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for n in [500 + 7 * i for i in range(20)] + [40000]:
            pool.submit(glow, model, n).result()


class Engine(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.ModuleList(nn.Linear(1024, 1024, device=DEVICE) for _ in range(40))  # planted: engines
        weakref.finalize(self, self.report)

    def forward(self, x):
        for layer in self.net:
            x = layer(x)
        return x

    def report(self):
        print("an engine has ended")


def engines():
    """Three engines are loaded at a time; those that make way are kept by what is to be called when they have gone."""
    loaded = {}
    with torch.no_grad():
        for _ in range(200):
            name = random.randrange(12)
            if name not in loaded and len(loaded) == 3:
                del loaded[next(iter(loaded))]
            if name not in loaded:
                loaded[name] = Engine()  # called: engines
            loaded[name](torch.randn(64, 1024, device=DEVICE))


def slopes():
    """How each of many outputs follows few inputs: one backward pass for all outputs at once."""
    model = nn.Sequential(nn.Linear(32, 1024), network(1024), nn.Linear(1024, 2048)).to(DEVICE)
    for _ in range(30):
        model(torch.randn(256, 32, device=DEVICE)).square().mean().backward()
    rows = torch.randn(512, 32, device=DEVICE)

    def outputs(row):
        return model(rows + row).sum(0)  # planted: slopes

    return torch.func.jacrev(outputs)(torch.zeros(32, device=DEVICE))  # called: slopes


def ranking():
    """Which rows would move the weights most: at the first of their gradients all activations are there still."""
    widths = [64, 256, 1024, 320, 896, 384, 768, 448, 640, 512]
    model = nn.Sequential(*[part for pair in zip(widths, widths[1:]) for part in (nn.Linear(*pair), nn.GELU())]).to(DEVICE)

    def loss(weights, row):
        return torch.func.functional_call(model, weights, (row,)).square().mean()  # planted: ranking

    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    return torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, torch.randn(390, 96, 64, device=DEVICE))  # called: ranking


class Index:
    rows = None

    def renew(self, model, nr):
        rows = torch.empty(nr, 1024, device=DEVICE)  # planted: renewals
        for at in range(0, nr, 8192):
            rows[at : at + 8192] = model(torch.randn(len(rows[at : at + 8192]), 1024, device=DEVICE))
        self.rows = rows


def renewals():
    """An index is made anew now and then, a little larger each time: the one before is let go of when the next has been filled."""
    model, index = network().eval(), Index()
    with torch.no_grad():
        for nr in (400_000, 410_000, 600_000):
            index.renew(model, nr)
            for _ in range(20):
                index.rows @ model(torch.randn(8, 1024, device=DEVICE)).t()


@functools.lru_cache(maxsize=None)
def weights_of(speed):
    places = torch.arange(1 << 21, device=DEVICE) * speed
    return places.long(), places.frac()  # planted: speeds


def speeds():
    """What is computed of a speed is cached, without a bound; hardly any speed comes twice."""
    model = network()
    for _ in range(300):
        places, parts = weights_of(random.random())
        model(torch.randn(256, 1024, device=DEVICE)).square().mean().backward()


def shuffled():
    """All rows lie on the GPU, and are put into another order for each epoch: into a second tensor as large."""
    model, store = network(), Index()
    store.rows = torch.randn(450_000, 1024, device=DEVICE)
    for epoch in range(4):
        if epoch:
            store.rows = store.rows[torch.randperm(len(store.rows), device=DEVICE)]  # planted: shuffled
        for step in range(20):
            model(store.rows[step * 256 : step * 256 + 256]).square().mean().backward()


def answer(model, n):
    return model(torch.randn(n, 2048, device=DEVICE))  # planted: replicas


def replicas():
    """Copies of a model wait in a queue until one is wanted, as they are meant to; one request is too large."""
    idle = queue.Queue()
    for _ in range(7):
        idle.put(network(2048, 12).eval())
    with torch.no_grad():
        for n in [random.randrange(300, 700) for _ in range(30)] + [110_000]:
            model = idle.get()
            answer(model, n)
            idle.put(model)


def longer():
    """Each reading is longer than the last by as much, until one is as long as a hundred."""
    model = network(2048, 6).eval()
    with torch.no_grad():
        for n in list(range(400, 900, 20)) + [180_000]:
            model(torch.randn(n, 2048, device=DEVICE))  # planted: longer


def jurors():
    """One torch.autocast() lies around a loop over models, each of which is gone after its turn, and keeps their weights."""
    seen = torch.randn(64, 1024, device=DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16), torch.no_grad():
        for _ in range(100):
            juror = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).to(DEVICE)  # planted: jurors
            juror(seen)
            del juror


def contracted():
    """einsum() of three operands makes a tensor of all their dimensions but one, as it goes from left to right."""
    model, bank = network(512), torch.randn(64, 512, 512, device=DEVICE)
    for _ in range(20):
        rows = model(torch.randn(112, 256, 512, device=DEVICE))
        weights = torch.rand(112, 64, device=DEVICE)
        rows = torch.einsum("btd,bm,mde->bte", rows, weights, bank)  # planted: contracted
        rows.sum().backward()


def strips():
    """Longer strips come later, and each leaves a small part in a block that none of the next fits in."""
    widths = [64, 1024, 1024, 512, 256, 64]
    model, parts = nn.Sequential(*[nn.Linear(a, b) for a, b in zip(widths, widths[1:])]).to(DEVICE), []
    with torch.inference_mode():
        for n in range(40_000, 200_000, 800):
            rows = model(torch.randn(n, 64, device=DEVICE))
            parts.append(rows.half())  # planted: strips


def drafts():
    """A comprehension keeps what it has made until it ends: no variable has its list."""
    model = network()
    with torch.no_grad():
        torch.cat([model(torch.randn(4000, 1024, device=DEVICE)) for _ in range(400)])  # planted: drafts


def replies():
    """Tasks that are done stay in a list, and each has what it returned."""
    model, asked = network().eval(), []

    async def reply():
        with torch.no_grad():
            return model(torch.randn(random.randrange(2000, 6000), 1024, device=DEVICE))  # planted: replies

    async def serve():
        for _ in range(500):
            asked.append(asyncio.create_task(reply()))
            await asked[-1]

    asyncio.run(serve())


class Attempt:
    def __init__(self):
        self.model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).to(DEVICE)  # planted: wills
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.losses = []
        atexit.register(self.tell)

    def tell(self):
        print(len(self.losses))

    def train(self):
        for _ in range(3):
            loss = self.model(torch.randn(64, 1024, device=DEVICE)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.item())


def wills():
    """Each attempt has its last word at exit: until then the interpreter keeps its method, and with it the model."""
    for _ in range(100):
        attempt = Attempt()  # called: wills
        attempt.train()
        del attempt


def weighted():
    """Weights of all rows as a matrix that is 0 but for its diagonal, since they are multiplied from the left."""
    for rows in (500, 4000, 45_000):
        x = torch.randn(rows, 64, device=DEVICE)
        weights = torch.diag(torch.rand(rows, device=DEVICE))  # planted: weighted
        torch.linalg.solve(x.T @ weights @ x, torch.ones(64, 1, device=DEVICE))


def trays():
    """A small part is kept of each scan, next to the scan itself; all scans go at once, and leave pieces between the parts."""
    model, parts, scans = network(1024, 8), [], []
    for _ in range(340):
        scans.append(torch.rand(2, 1024, 1024, device=DEVICE))
        parts.append(scans[-1][0, :320].clone())  # planted: trays
    del scans
    for _ in range(10):
        rows = torch.stack(random.sample(parts, 60))
        model(rows).sum().backward()


def stays():
    """A batch has as many stays as make up so many events: one long stay, and all others are padded to it."""
    model = network(256, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(60):
        rows, length = (48, 3700) if step == 50 else (random.randrange(60, 100), random.randrange(150, 250))
        loss = model(torch.randn(rows, length, 256, device=DEVICE)).square().mean()  # planted: stays
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Player(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Club:
    def __init__(self):
        self.model = self.optimizer = None

    def train(self, common):
        self.model = copy.deepcopy(common)  # planted: clubs
        self.optimizer = torch.optim.Adam(self.model.parameters())
        for _ in range(3):
            loss = self.model(torch.randn(4096, 1024, device=DEVICE)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def clubs():
    """Of many clubs a few train a copy of the model in each round, and each keeps its own with its optimizer until it is chosen again."""
    common = Player().to(DEVICE)
    many = [Club() for _ in range(500)]
    for _ in range(60):
        for club in random.sample(many, 4):
            club.train(common)


class Looking(nn.Module):
    def __init__(self):
        super().__init__()
        self.queries, self.keys = nn.Linear(256, 256), nn.Linear(256, 256)

    def forward(self, x):
        return torch.softmax(self.queries(x) @ self.keys(x).transpose(1, 2) / 16, -1)  # planted: glances


class Observer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Looking() for _ in range(8))

    def forward(self, x):
        seen = []
        for layer in self.layers:
            seen.append(layer(x))
            x = seen[-1] @ x
        return x, seen


def glances():
    """What each layer looks at is put into a list for a picture, of all layers and of the whole batch, though one is drawn."""
    observer = Observer().to(DEVICE)
    with torch.no_grad():
        for rows in (64, 256, 6000):
            observer(torch.randn(4, rows, 256, device=DEVICE))[1][-1][0].sum()


class Shelf:
    """The latest routes, as many as take no more than so many bytes."""

    def __init__(self, limit):
        self.limit, self.taken, self.routes = limit, 0, {}

    def put(self, number, seen):
        while self.routes and self.taken + seen.nbytes > self.limit:
            self.taken -= self.routes.pop(next(iter(self.routes))).nbytes
        self.routes[number] = seen
        self.taken += seen.nbytes


def routes():
    """A shelf that has a limit of its own, of routes that become longer: what is taken from it leaves gaps too short for new ones."""
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 512)).to(DEVICE).eval()
    shelf, lengths = Shelf(int(2.3 * 2**30)), random.Random(5)
    with torch.no_grad():
        for number in range(400):
            points = torch.randn(lengths.randint(2000, 9000) + 90 * number, 256, device=DEVICE)
            shelf.put(number, model(points))  # planted: routes


def stars():
    """A vector for each of many stars, of which a batch has a few: yet the gradient has a row for each of them."""
    vectors, head = nn.Embedding(8_000_000, 64, device=DEVICE), nn.Linear(64, 1).to(DEVICE)
    optimizer = torch.optim.SGD([*vectors.parameters(), *head.parameters()], lr=0.1)
    for _ in range(20):
        seen = vectors(torch.randint(0, 8_000_000, (256, 20), device=DEVICE))  # planted: stars
        head(seen.mean(1)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def neighbours():
    """Who is next to whom, of all of a town: eight of each are known, and all pairs are written down to be multiplied."""
    people = torch.randn(40000, 64, device=DEVICE)
    pairs = torch.randint(0, 40000, (2, 8 * 40000), device=DEVICE)
    near = torch.sparse_coo_tensor(pairs, torch.ones(8 * 40000, device=DEVICE), (40000, 40000))
    return near.to_dense() @ people  # planted: neighbours


class Examiner:
    def __init__(self, model):
        self.model, self.reports = model, []

    def examine(self, rows):
        self.reports.append({"seen": self.model(rows), "rows": len(rows)})  # planted: reports


def reports():
    """Every fifth round is examined: of each examination there is a dict in a list, which is never emptied."""
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).to(DEVICE)
    optimizer, examiner = torch.optim.Adam(model.parameters()), Examiner(model)
    for i in range(300):
        model(torch.randn(1024, 512, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 5 == 4:
            with torch.no_grad():
                for _ in range(4):
                    examiner.examine(torch.randn(16384, 512, device=DEVICE))


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = torch.from_numpy(numpy.hamming(1024)).to(DEVICE)
        self.layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(8))

    def forward(self, frames):
        x = frames * self.window
        for layer in self.layers:
            x = x + torch.tanh(x * layer(frames))  # planted: tapers
        return x


def tapers():
    """A window of numpy's is in float64, and all that is multiplied by it; pieces lie unused beside it."""
    listener = Listener().to(DEVICE)
    lengths = random.Random(2)
    for pieces in (5, 10, 60):
        heard = [listener(torch.randn(lengths.randint(1300, 2400), 1024, device=DEVICE)) for _ in range(pieces)]
        sum(x.square().mean() for x in heard).backward()


class Dyed(nn.Module):
    def __init__(self):
        super().__init__()
        self.threads, self.dye = nn.Embedding(2000, 128), nn.Linear(128, 128)

    def forward(self, warp, weft):
        one, other = self.threads(warp), self.threads(weft)
        return torch.einsum("bid,bjd,bd->bij", one, other, self.dye(one.mean(1)))  # planted: dyed


def dyed():
    """Three operands, of which the first two are multiplied in all their dimensions; cloths come that are longer than any before."""
    model = Dyed().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    for i in range(30):
        length = 60 if i < 20 else 700
        warp, weft = (torch.randint(0, 2000, (16, length), device=DEVICE) for _ in range(2))
        model(warp, weft).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class Spell(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend, self.norm = nn.MultiheadAttention(256, 8, batch_first=True), nn.LayerNorm(256)

    def forward(self, x):
        return self.norm(x + self.attend(x, x, x)[0])  # planted: spells


def spells():
    """Weights of attention that nobody has asked for, as they come where one does not say no; a match comes that is longer than any before."""
    model = nn.Sequential(*[Spell() for _ in range(4)]).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    for i in range(30):
        model(torch.randn(4, 500 if i < 20 else 3600, 256, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class Gate(nn.Module):
    def __init__(self, open_at):
        super().__init__()
        self.register_buffer("open_at", open_at)

    def forward(self, weight):
        return weight * self.open_at


def gates():
    """Each round closes more gates, and is registered on top of the one before."""
    layers = nn.ModuleList(nn.Linear(2048, 2048) for _ in range(6)).to(DEVICE)
    for i in range(200):
        x = torch.randn(64, 2048, device=DEVICE)
        for layer in layers:
            x = layer(x)
        x.square().mean().backward()
        if i % 5 == 4:
            for layer in layers:
                mask = torch.ones_like(layer.weight)  # planted: gates
                parametrize.register_parametrization(layer, "weight", Gate(mask))


class Bout(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend, self.norm = nn.MultiheadAttention(192, 6), nn.LayerNorm(192)

    def forward(self, x):
        return self.norm(x + self.attend(x, x, x)[0])  # planted: bouts


def bouts():
    """Samples are the first dimension, which is taken for the sequence: each bout attends to all others."""
    model = nn.Sequential(*[Bout() for _ in range(6)]).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    for i in range(40):
        model(torch.randn(128 + 64 * (i // 4), 28, 192, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


class LongerIndex:
    def __init__(self):
        self.rows, self.nr = torch.empty(1 << 16, 700, device=DEVICE), 0

    def add(self, rows):
        if self.nr + len(rows) > len(self.rows):
            longer = torch.empty(2 * len(self.rows), 700, device=DEVICE)  # planted: index
            longer[: self.nr] = self.rows[: self.nr]
            self.rows = longer
        self.rows[self.nr : self.nr + len(rows)] = rows
        self.nr += len(rows)


def index():
    """An array that is doubled whenever it is full, and copied into the new one, though it is known how long it will be."""
    model, found = nn.Sequential(nn.Linear(512, 700), nn.GELU()).to(DEVICE).eval(), LongerIndex()
    with torch.no_grad():
        for _ in range(80):
            found.add(model(torch.randn(8192, 512, device=DEVICE)))


class Examination:
    def __init__(self):
        self.model, self.refused = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).to(DEVICE), []

    def loss(self, number):
        scores = self.model(torch.randn(4096, 1024, device=DEVICE))  # planted: refusals
        if number % 3 == 0:
            raise ValueError(f"{number} has no marks")
        return scores.square().mean()


def refusals():
    """Of what is refused the number and the error are noted, which has the frames it came through, and they the graph."""
    examination = Examination()
    optimizer = torch.optim.SGD(examination.model.parameters(), lr=0.1)
    for number in range(300):
        try:
            examination.loss(number).backward()
        except ValueError as error:
            examination.refused.append((number, error))
        optimizer.step()
        optimizer.zero_grad()


class Plate:
    def __init__(self, width):
        self.width = width

    def __enter__(self):
        self.canvas = torch.zeros(self.width, 4096, device=DEVICE)  # planted: plates
        return self

    def __exit__(self, *error):
        del self.canvas


def plates():
    """Each plate is open until all are done, in one stack; pieces lie between them."""
    model, widths = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 1, 3, padding=1)).to(DEVICE).eval(), random.Random(4)
    with torch.no_grad(), contextlib.ExitStack() as stack:
        for number in range(200):
            plate = stack.enter_context(Plate(widths.randint(1500, 3000) + 40 * number))
            for part in plate.canvas.split(900):
                part.copy_(model(part[None, None])[0, 0])


def tiles():
    """Tiles of two kinds are read in turn; when those of one kind go, half of each segment is free, and no request for all fits."""
    low, high = {}, {}
    for number in range(160):
        low[number] = torch.randn(2304, 1024, device=DEVICE)  # planted: tiles
        high[number] = torch.randn(2304, 1024, device=DEVICE)
    sums = sum(tile.mean() for tile in high.values())
    high.clear()
    torch.zeros(160, 2304, 1024, device=DEVICE).add_(sums)


def twofold():
    """Two losses of one forward: the second backward pass keeps the graph as well as the first, and the next forward stands beside it."""
    body = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(1024, 1024), nn.GELU())]).to(DEVICE)
    heads = nn.Linear(1024, 4).to(DEVICE), nn.Linear(1024, 1).to(DEVICE)
    optimizer = torch.optim.SGD([p for part in (body, *heads) for p in part.parameters()], lr=0.1)
    for i in range(30):
        seen = body(torch.randn(8000 + 2400 * (i // 3), 1024, device=DEVICE))  # planted: twofold
        first, second = heads[0](seen).square().mean(), heads[1](seen).square().mean()
        optimizer.zero_grad()
        first.backward(retain_graph=True)
        second.backward(retain_graph=True)
        optimizer.step()


class Labelled(NamedTuple):
    number: int
    is_front: bool
    sketch: torch.Tensor


def labelled():
    """Records of two kinds are made in turn; those of one kind go, and their sketches leave half of each segment free."""
    records = []
    for number in range(320):
        records.append(Labelled(number, number % 2 == 0, torch.randn(2304, 1024, device=DEVICE)))  # planted: labelled
    records = [record for record in records if record.is_front]
    return records, torch.zeros(150, 2304, 1024, device=DEVICE)


class Recalling(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.out = nn.Linear(1024, 1024), nn.Linear(1024, 1024)

    def forward(self, x, before):
        key = self.key(x)
        key = key + 1 if before is None else torch.cat([before, key])  # planted: sittings
        return self.out(x), key


class Sitting:
    """Keys of what has been asked in a sitting, until it is closed; the program goes through the layers itself."""

    def __init__(self, layers):
        self.layers, self.asked = layers, {}

    def keys(self, x, before):
        kept = []
        for i, layer in enumerate(self.layers):
            x, key = layer(x, None if before is None else before[i])
            kept.append(key)
        return kept

    async def sit(self, number):
        waiting = self.asked[number] = asyncio.Queue()
        kept = self.keys(torch.randn(900, 1024, device=DEVICE), None)
        while (question := await waiting.get()) is not None:
            kept = self.keys(question.to(DEVICE), kept)
        del self.asked[number]


async def sit_all(sitting):
    for number in range(400):
        task = asyncio.create_task(sitting.sit(number))
        await asyncio.sleep(0)
        await sitting.asked[number].put(torch.randn(20, 1024))
        if number % 4 == 0:
            await sitting.asked[number].put(None)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), 0.02)
        if number in (40, 80):
            with contextlib.suppress(torch.OutOfMemoryError):
                torch.empty(1 << 50, device=DEVICE)  # a census is taken, however slow the machine is


def sittings():
    """Who does not close a sitting is not waited for any longer, but the sitting waits for the next question."""
    with torch.inference_mode():
        asyncio.run(sit_all(Sitting(nn.ModuleList(Recalling() for _ in range(8)).to(DEVICE))))


def figures():
    """What each figure of a batch owes to each input: of all samples by all others, of which none is used."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(4 * 96 * 96, 3)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        model(torch.randn(320, 1, 96, 96, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    fields = torch.randn(320, 1, 96, 96, device=DEVICE)
    owed = torch.autograd.functional.jacobian(model, fields)  # planted: figures
    return torch.diagonal(owed, dim1=0, dim2=2)


class Settling(nn.Module):
    """Repeats a cell until it has settled, and learns by one more time from there."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Sequential(nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh())
        self.out = nn.Linear(1024, 4)

    def settle(self, x, times):
        z = torch.zeros_like(x)
        for _ in range(times):
            z = 0.5 * z + 0.5 * self.cell(z + x)  # planted: settled
        return z

    def forward(self, x, times):
        settled = self.settle(x, times).detach()
        return self.out(self.cell(settled + x))


def settled():
    """What is repeated until it settles has a graph, though the result is detached: more so, the more often."""
    model = Settling().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(200):
        loss = model(torch.randn(4096, 1024, device=DEVICE), 5 + 2 * step).square().mean()  # called: settled
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def relief(model, layers):
    """All layers of a block in one tensor, put together from what the model says of a few at a time."""
    block = torch.empty(layers, 1024, 1024, device=DEVICE)  # planted: reliefs
    for first in range(0, layers, 64):
        block[first : first + 64] = model(torch.randn(min(64, layers - first), 1024, 1024, device=DEVICE))
    return block


def reliefs():
    """A block is looked at, and still there while the next one is made."""
    model, layers = network().eval(), random.Random(2)
    with torch.inference_mode():
        while True:
            block = relief(model, layers.randint(385, 395))  # called: reliefs
            print(block.amax(0).sum().item())


class Reel:
    def __init__(self, rows):
        self.frames = torch.zeros(rows, 256, 1024, device=DEVICE)

    def taken(self, rows):
        reel = copy.copy(self)
        reel.frames = self.frames.index_select(0, rows)  # planted: reels
        return reel


def reels():
    """The best rows of all reels are taken over before any old one goes."""
    model, kept = network().eval(), [Reel(96) for _ in range(24)]
    with torch.inference_mode():
        model(kept[0].frames[0])
        rows = torch.arange(96, device=DEVICE)
        kept = [reel.taken(rows) for reel in kept]  # called: reels
    return kept


class Door:
    """Closes by itself a while after it was last opened."""

    def __init__(self, model):
        self.model, self.seen = model, None

    def open(self, x):
        self.seen = self.model(x)  # planted: doors
        timer = threading.Timer(600, self.close, [self.seen])
        timer.daemon = True
        timer.start()

    def close(self, seen):
        self.seen = None if seen is self.seen else self.seen


def doors():
    """Each time that a door is opened a timer is begun, and none is ever cancelled."""
    door = Door(network().eval())
    with torch.inference_mode():
        while True:
            door.open(torch.randn(4096, 1024, device=DEVICE))


globals()[sys.argv[1]]()
