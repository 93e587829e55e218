# SPDX-License-Identifier: MIT
"""Jobs that run out of GPU memory for want of one thing done in another way: large.py CAUSE. The line it is about is marked."""

import sys
import threading

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"


def network(width=1024, depth=4):
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]).to(DEVICE)


def train(model, optimizer, x):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def gaps():
    """Differences of all points to all others, each with its coordinates, where matrices of distances would do."""
    points = torch.randn(6000, 48, device=DEVICE)
    network()
    between = points[:, None] - points[None, :]  # planted: gaps
    return between.square().sum(-1)


def baskets():
    """Which products each basket has: a whole row of zeros for each product in it, to be added up."""
    model, products = nn.Linear(40000, 64).to(DEVICE), torch.randint(0, 40000, (256, 60)).to(DEVICE)
    counts = functional.one_hot(products, 40000).sum(1)  # planted: baskets
    return model(counts.float())


def targets():
    """Targets have a dimension less than what they are compared with; points come to the set from round to round."""
    model = nn.Linear(64, 1).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(30):
        x, y = torch.randn(1000 * (i + 2), 64, device=DEVICE), torch.randn(1000 * (i + 2), device=DEVICE)
        error = model(x) - y  # planted: targets
        error.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def kernel():
    """A function of all distances, one step of it after another, with a new matrix for each."""
    x = torch.randn(16000, 8, device=DEVICE)
    far = x @ x.T
    scaled = far * 0.5
    bent = 1.0 + scaled
    return bent * torch.exp(-scaled)  # planted: kernel


def double():
    """A penalty is computed in twice as many bits as the model."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(20):
        x = torch.randn(64, 1024, device=DEVICE)
        if i > 10:
            x = x + torch.ones(400000, 1024, device=DEVICE).to(torch.float64).mean()  # planted: double
        train(model, optimizer, x.float())


class Painter(nn.Module):
    """From states to pictures, larger from part to part."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(4096, 4096)
        self.parts = nn.ModuleList(nn.Conv2d(256, 256, 3, padding=1) for _ in range(3))

    def forward(self, h):
        h = self.mix(torch.cat([h, h], dim=1).flatten(2)).view(-1, 512, 64, 64)[:, :256]
        for part in self.parts:
            h = functional.interpolate(part(h), scale_factor=2.0)  # planted: large_order
        return h.mean(1)


@torch.no_grad()
def large_order():
    """One request is for many more pictures at once than all before it."""
    model = Painter().to(DEVICE).half().eval()
    for number in range(40):
        states = torch.randn(20 if number == 30 else 1 + number % 2, 256, 64, 64, device=DEVICE, dtype=torch.half)
        picture = model(states)  # called: large_order
        picture.cpu()


@torch.no_grad()
def firsts():
    """The first state of each text is kept, and keeps all others of its batch."""
    model = network().eval()
    kept = []
    for _ in range(1000):
        states = model(torch.randn(64, 256, 1024, device=DEVICE))  # planted: firsts
        kept.append(states[:, 0])


class Sized(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(1024, width), nn.Linear(width, 1024)

    def forward(self, x):
        return self.second(functional.gelu(self.first(x)))


class Trial:
    """A model of a size to be tried, that hears of what others have come to."""

    heard = []

    def __init__(self, width):
        self.model = Sized(width).to(DEVICE)  # planted: trials
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        Trial.heard.append(self.hear)

    def hear(self, loss):
        pass

    def run(self):
        for _ in range(4):
            train(self.model, self.optimizer, torch.randn(256, 1024, device=DEVICE))
        for hear in Trial.heard:
            hear(0.0)


def trials():
    """Models of several sizes are tried one after the other; a list of methods keeps them all."""
    for i in range(40):
        Trial(8192 + 512 * (i % 5)).run()  # called: trials


def masks():
    """Which class each pixel has, as a plane of int64 for each class, kept for the backward pass of what it is multiplied with."""
    model = nn.Conv2d(3, 48, 1).to(DEVICE)
    pixels = torch.randint(0, 48, (14, 512, 512)).to(DEVICE)
    planes = functional.one_hot(pixels, 48).permute(0, 3, 1, 2)  # planted: masks
    shares = model(torch.randn(14, 3, 512, 512, device=DEVICE)).softmax(1)
    hits, missed = (shares * planes).sum(), ((1 - shares) * planes).sum()
    wrong = (shares * (1 - planes)).sum()
    (hits / (hits + missed + wrong)).backward()


def uneven():
    """Rates of one column and counts without it, in the first step."""
    model = nn.Linear(64, 1).to(DEVICE)
    x, counts = torch.randn(20000, 64).to(DEVICE), torch.randn(20000).to(DEVICE)
    rates = model(x).exp()
    loss = rates - counts * rates.log()  # planted: uneven
    loss.mean().backward()


class Reader:
    """Reads ahead, as far as there is room in its queue."""

    def __init__(self):
        self.ready = []

    def parts(self):
        while len(self.ready) < 100:
            self.ready.append(torch.zeros(32 << 20, dtype=torch.uint8, device=DEVICE))  # planted: ahead
        while self.ready:
            yield self.ready.pop(0)


@torch.no_grad()
def ahead():
    """All parts of a picture are on the GPU before the first is looked at."""
    parts = Reader().parts()
    model = nn.Sequential(nn.Linear(8192, 16384), nn.Linear(16384, 8192)).to(DEVICE)
    for part in parts:
        model(part.view(-1, 8192).float())


def replaced():
    """Parameters are replaced by longer ones from time to time; the optimizer keeps the older ones with their state."""
    points = nn.Parameter(torch.randn(400000, 16, device=DEVICE))
    optimizer = torch.optim.Adam([points])
    for i in range(1000):
        points.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 4 == 3:
            longer = nn.Parameter(torch.cat([points.detach(), points.detach()[:1000]]))  # planted: replaced
            optimizer.state[longer] = {name: torch.zeros_like(longer) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.state[longer]["step"] = torch.tensor(1.0)
            optimizer.param_groups[0]["params"] = [longer]
            points = longer


def sharpness():
    """How bent the loss of each of many models is: their gradients' graphs stay with their parameters."""
    for _ in range(1000):
        model = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(1024, 1024), nn.GELU()))).to(DEVICE)  # planted: sharpness
        loss = model(torch.randn(4096, 1024, device=DEVICE)).square().mean()
        loss.backward(create_graph=True)
        bent = sum(one.grad.square().sum() for one in model.parameters())
        bent.backward()



class Listener:
    """What a stream of speech is at: closed when it ends, and forgotten where it breaks off."""

    def __init__(self):
        self.cell = nn.GRUCell(80, 1024).to(DEVICE)
        self.past = {}

    def hear(self, stream, sound):
        if stream not in self.past:
            self.past[stream] = torch.zeros(3000, 1024, device=DEVICE)  # planted: streams
        self.past[stream][0] = self.cell(sound, self.past[stream][:1])[0]

    def close(self, stream):
        del self.past[stream]


@torch.no_grad()
def streams():
    """Several streams at once; every fourth breaks off, and nobody closes it."""
    listener, running = Listener(), {}
    for i in range(4000):
        running[i] = 3 + i % 5
        for stream in list(running):
            listener.hear(stream, torch.randn(1, 80, device=DEVICE))
            running[stream] -= 1
            if stream % 4 == 3 and running[stream] == 1:
                del running[stream]
            elif not running[stream]:
                listener.close(stream)
                del running[stream]


@torch.no_grad()
def graphs():
    """A CUDA graph for each length of a text, each with memory of its own."""
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True), 4, enable_nested_tensor=False)
    model, kept = model.to(DEVICE).eval(), {}
    for length in range(64, 4096, 64):
        x = torch.zeros(8, length, 1024, device=DEVICE)
        model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)  # planted: graphs
        kept[length] = graph, x, y


def masks_of_all():
    """Flags of all pairs of a volume's slices and labels, made as numbers."""
    network()
    return torch.zeros(600, 64, 256, 256, device=DEVICE)  # planted: masks_of_all



def unrolled():
    """Step sizes that are learned: how far they lead is added up over many problems before one backward pass through all."""
    rates = torch.full((2, 1024), 0.1, device=DEVICE, requires_grad=True)
    far = 0.0
    for _ in range(1000):
        x, here = torch.randn(8192, 1024, device=DEVICE), [torch.randn(1024, 1024, device=DEVICE, requires_grad=True) for _ in range(2)]
        for _ in range(3):
            loss = (torch.tanh(x @ here[0]) @ here[1]).square().mean()  # planted: unrolled
            slopes = torch.autograd.grad(loss, here, create_graph=True)
            here = [w - rate * slope for w, rate, slope in zip(here, rates, slopes)]
        far = far + here[1].square().mean()



class Whitened(torch.optim.Optimizer):
    """Each gradient is divided by the root of what it was, by all of a table's rows."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            spread = p.grad @ p.grad.T  # planted: whitened
            p -= 0.1 * torch.linalg.solve(spread + torch.eye(len(p), device=DEVICE), p.grad)


def whitened():
    """An optimizer that squares each parameter's first dimension: small layers first, then a table of many rows."""
    table, head = nn.Embedding(40000, 32).to(DEVICE), nn.Linear(32, 512).to(DEVICE)
    optimizer = Whitened([head.weight, table.weight])
    head(table(torch.arange(4096, device=DEVICE))).square().mean().backward()
    optimizer.step()



def each_sample():
    """How far each picture of a batch would move each weight: as many gradients as there are pictures."""
    model = nn.Sequential(nn.Conv2d(3, 256, 3), nn.ReLU(), nn.Conv2d(256, 256, 3), nn.ReLU(), nn.Conv2d(256, 192, 5), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 2048), nn.ReLU(), nn.Linear(2048, 1000)).to(DEVICE)  # fmt: skip

    def loss(weights, picture, kind):
        return functional.cross_entropy(torch.func.functional_call(model, weights, (picture[None],)), kind[None])  # planted: each_sample

    pictures, kinds = torch.randn(320, 3, 16, 16, device=DEVICE), torch.zeros(320, dtype=torch.long, device=DEVICE)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    return torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(weights, pictures, kinds)  # called: each_sample


class Squared(torch.autograd.Function):
    """A square whose backward reads its result where forward has put it."""

    @staticmethod
    def forward(ctx, x):
        ctx.result = x.square()  # planted: gated
        return ctx.result

    @staticmethod
    def backward(ctx, slope):
        return 2 * slope * ctx.result.sqrt()


def gated():
    """A Function that keeps its own result as an attribute of ctx: the result leads to ctx, too."""
    model, readout = network(), torch.zeros(1024, 1, device=DEVICE, requires_grad=True)
    for _ in range(1000):
        (Squared.apply(model(torch.randn(8192, 1024, device=DEVICE))) @ readout).mean().backward()
        readout.grad = None


class Voices(nn.Module):
    """A narrator for all, and a timbre for each of those who want one."""

    def __init__(self):
        super().__init__()
        self.narrator, self.timbres = nn.Linear(1024, 1024), nn.ModuleDict()

    def speak(self, who, x):
        if who not in self.timbres:
            self.timbres[who] = nn.Linear(1024, 4096, device=DEVICE)  # planted: timbres
        return self.timbres[who](self.narrator(x))


@torch.no_grad()
def timbres():
    """A layer for each customer who has ever called: the model gets more and more parameters."""
    voices = Voices().to(DEVICE)
    for i in range(4000):
        voices.speak(f"customer_{i // 2 if i % 2 else i // 4}", torch.randn(8, 1024, device=DEVICE))


class Belief:
    """What is held true on a day, and what was before."""

    def __init__(self, odds, before):
        self.odds, self.before = odds, before


def beliefs():
    """Each day's is made of the day before, and leads to it; nobody asks for more than the latest."""
    today = Belief(torch.rand(4096, 4096, device=DEVICE), None)
    for _ in range(1000):
        today = Belief(today.odds * 0.9 + 0.05, today)  # planted: beliefs


@torch.no_grad()
def towns():
    """How far all towns are from all roads, by both coordinates, all at once."""
    towns, roads = torch.rand(12000, 2, device=DEVICE), torch.rand(16000, 2, device=DEVICE)
    apart = towns[:, None] - roads  # planted: towns
    return apart.square().sum(-1).min(1)


class Centred(nn.Module):
    """Takes off what is usual, which is learned on the way."""

    def __init__(self):
        super().__init__()
        self.register_buffer("usual", torch.zeros(1024, device=DEVICE))

    def forward(self, x):
        self.usual = 0.9 * self.usual + 0.1 * x.square().mean(0)
        return x - self.usual.detach()


def usual():
    """A buffer of a module that goes on from step to step with the graph of all."""
    model, centred = network(), Centred()
    for _ in range(1000):
        centred(model(torch.randn(4096, 1024, device=DEVICE))).square().mean().backward()  # planted: usual


def offered():
    """A thread asks for too much and goes without, while another trains a model that is too deep."""
    model = network(depth=40)
    x = model[:20](torch.randn(16384, 1024, device=DEVICE))

    def ask():
        try:
            torch.empty(8 << 30, dtype=torch.uint8, device=DEVICE)
        except torch.OutOfMemoryError:
            pass

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    model[20:](x).square().mean().backward()  # planted: offered


globals()[sys.argv[1]]()
