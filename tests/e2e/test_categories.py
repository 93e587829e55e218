# SPDX-License-Identifier: MIT
"""What memory is for, block by block, against what the program's own objects say (jobs/categories/truth.py)."""

import bisect
import json
import re
import sys
from collections import Counter, defaultdict

import pytest

from harness import WITH_NAMES, python

TRAIN = "categories/train.py"
LOOPS = [
    "sgd_momentum", "adamw_foreach", "adamw_fused", "adamw_loop", "accumulate", "keep_gradients", "recompute", "mixed",
    "in_backward", "no_modules", "adversarial", "twice", "interrupted",
    "master_weights", "own_optimizer", "functional_steps", "penalty", "momentum_encoder", "averaged",
]
KEPT = "categories/kept.py"
JOBS = [(TRAIN, name) for name in LOOPS]
JOBS += [(KEPT, name) for name in ("statistics", "transitions", "average", "ensemble", "line_search", "compiled",
                                "by_hand", "summed", "flat", "flat_copy",
                                "wide_sums", "preconditioned", "hooked", "regularized", "padded", "sharpness")]
JOBS += [("categories/loops.py",), ("categories/hf_trainer.py",)]
JOBS += [("categories/lightning_fit.py",)]
# Lines of the program itself make tensors there that have the sizes of the weights, stay, and are no module's: an average of
# the weights, weights in another type, sums of gradients, gradients. Nothing that is recorded tells which.
BY_HAND = {"keep_gradients", "summed", "flat_copy", "wide_sums", "sharpness"}
RANK = ["parameter", "buffer", "optimizer_state", "gradient", "input", "activation"]  # of a block that is several, the first


class Oracle:
    """The true category of blocks by the ordinal of their allocation, as far as the program knows it."""

    def __init__(self, events, told):
        self.by_address, self.ended = defaultdict(list), {}
        self.allocs = []
        live = {}
        for event in events:
            if event["kind"] == "tensor_alloc":
                self.by_address[event["address"]].append((len(self.allocs), event["ordinal"]))
                self.allocs.append(event)
                live[event["address"]] = event["ordinal"]
            elif event["kind"] == "tensor_free" and event["address"] in live:
                self.ended[live.pop(event["address"])] = len(self.allocs)
        self.index = {event["ordinal"]: i for i, event in enumerate(self.allocs)}
        self.backwards = told["backwards"]
        self.names = defaultdict(set)
        for category, address, count, _ in told["notes"]:
            blocks = self.by_address[address]
            at = bisect.bisect_left(blocks, (count,)) - 1
            if at >= 0:
                self.names[blocks[at][1]].add(category)

        # The innermost call of a module is the one that begins last; of the same name it may have run inside another's.
        self.modules = {}
        for name, first, last in sorted(told["calls"], key=lambda call: (call[1], -call[2])):
            for event in self.allocs[first:last]:
                if event["phase"] == "forward":
                    self.modules[event["ordinal"]] = name
        for name, address, count in told["places"]:
            blocks = self.by_address[address]
            at = bisect.bisect_left(blocks, (count,)) - 1
            if at >= 0:
                self.modules[blocks[at][1]] = name

    def category(self, ordinal):
        return next((name for name in RANK if name in self.names.get(ordinal, ())), None)

    def is_untold(self, job, block):
        """Is it one of those that only the program's text would tell of?"""
        true = self.category(block["ordinal"])
        return job in BY_HAND and block["phase"] in ("init", "other") and true in ("parameter", "gradient", "optimizer_state")

    def allows(self, ordinal, said):
        """Is this right, as far as the program knows? What it does not know may be what passes by."""
        true = self.category(ordinal)
        if true == "buffer":  # a fact of a census; by rules a buffer is like a parameter
            return said in ("buffer", "parameter")
        if true:
            return said == true
        if said == "activation":  # also what autograd does not save, but is still there when backward begins
            first, last = self.index[ordinal], self.ended.get(ordinal, len(self.allocs))
            return any(first < begun <= last for begun in self.backwards)
        return said in ("temporary", "workspace", "communication", "unknown")


def name_of(job):
    return job[-1] if job[0] in (TRAIN, KEPT) else job[0].partition("/")[2].removesuffix(".py")


@pytest.fixture(scope="module", params=JOBS, ids=name_of)
def job(request, recorded, events_of):
    recording = recorded(*request.param)
    assert recording.status == 0, recording.stderr
    return recording, Oracle(events_of(recording.path), recording.ledger), name_of(request.param)


def moments(recording, oracle):
    """The peak, and times all over the recording, of which the last is after everything."""
    times = [event["time_ns"] for event in oracle.allocs]
    return [()] + [("--at", f"{times[len(times) * i // 13]}ns") for i in range(1, 13)]


def blocks_at(vramtrace, recording, moment):
    return vramtrace.json("peak", "--by", "block", *moment, recording.path)["devices"][0]["blocks"]


def describe(blocks, oracle):
    ranked = sorted(blocks, key=lambda block: -block["bytes"])[:6]
    return [(b["bytes"], b["shape"], b["phase"], b["category"], oracle.category(b["ordinal"]), b["ordinal"]) for b in ranked]


def test_each_block_has_its_category(vramtrace, job):
    """At the peak and at any other time, wrong bytes stay below 1% of each category's, unknown ones below 5% of all.

    What nobody can tell (BY_HAND) may be unknown, and nothing else.
    """
    recording, oracle, name = job
    for moment in moments(recording, oracle):
        blocks = blocks_at(vramtrace, recording, moment)
        total = sum(block["bytes"] for block in blocks)
        blocks = [b for b in blocks if b["category"] != "unknown" or not oracle.is_untold(name, b)]
        wrong = [block for block in blocks if not oracle.allows(block["ordinal"], block["category"])]
        sums, errors = Counter(), Counter()
        for block in blocks:
            sums[oracle.category(block["ordinal"]) or block["category"]] += block["bytes"]
        for block in wrong:
            errors[oracle.category(block["ordinal"]) or block["category"]] += block["bytes"]
        for category, amount in errors.items():
            assert amount <= max(0.01 * sums[category], 0.001 * total), (moment, category, describe(wrong, oracle))
        unknown = [block for block in blocks if block["category"] == "unknown"]
        assert sum(b["bytes"] for b in unknown) <= 0.05 * total, (moment, describe(unknown, oracle))


def test_sums_are_the_programs_own(vramtrace, job):
    """At the end, parameters, gradients and optimizer state are within 1% of what the program computes itself."""
    recording, _, name = job
    device = vramtrace.json("peak", "--by", "category", "--at", "end", recording.path)["devices"][0]
    said = Counter({row["category"]: row["bytes"] for row in device["categories"]})
    small = 4096 + 0.001 * sum(said.values())
    own = dict(recording.ledger)
    if said["buffer"] < own["buffer"] / 2:  # no census saw them: by rules a buffer is like a parameter
        own["parameter"] += own.pop("buffer")
    for category in own.keys() & {"parameter", "buffer", "gradient", "optimizer_state"}:
        untold = said["unknown"] if name in BY_HAND else 0
        assert said[category] <= 1.01 * own[category] + small, category
        assert said[category] >= 0.99 * own[category] - small - untold, category


def test_categories_sum_to_the_peak(vramtrace, job):
    device = vramtrace.json("report", job[0].path)["devices"][0]
    assert sum(device["categories_at_peak"].values()) == device["tensor"]["peak_bytes"]


NAMED = [(TRAIN, name) for name in ("adamw_foreach", "accumulate", "mixed", "recompute")] + JOBS[-3:] + [("categories/names.py",), ("categories/loops_within.py",),
                                                                                                ("categories/rounds.py",)]


@pytest.mark.parametrize("arguments", NAMED, ids=name_of)
def test_modules_have_their_names(vramtrace, recorded, events_of, arguments):
    """At the peak, 95% of the bytes that the program can place, and 99% of their layers, are in the right module."""
    recording = recorded(*arguments)
    oracle = Oracle(events_of(recording.path), recording.ledger)
    blocks = [b for b in blocks_at(vramtrace, recording, ()) if b["ordinal"] in oracle.modules]
    total, wrong, misplaced = sum(b["bytes"] for b in blocks), [], []
    for block in blocks:
        true, said = oracle.modules[block["ordinal"]], (block["module"] or "").partition(".")[2]  # below the model
        if said != true:
            wrong.append((block["bytes"], block["category"], block["shape"], block["phase"], true, said))
        if not said.startswith(".".join(true.split(".")[:2])):
            misplaced.append(wrong[-1])
    assert total and sum(b[0] for b in wrong) <= 0.05 * total, sorted(wrong, reverse=True)[:12]
    assert sum(b[0] for b in misplaced) <= 0.01 * total, sorted(misplaced, reverse=True)[:12]


UNTOLD = """
import torch
from torch import nn
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 64), nn.Linear(64, 64)
    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
class Group(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Inner() for _ in range(3)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.groups = nn.ModuleList([Group() for _ in range(2)])
        self.shared = nn.ModuleList([Inner() for _ in range(2)])
        self.back = nn.ModuleList([Inner() for _ in range(2)])
        self.picked = nn.ModuleList([Inner() for _ in range(3)])
        self.heads = nn.ModuleDict({"one": Inner(), "two": Inner()})
    def forward(self, x, which):
        for group in self.groups:
            x = group(x)
        for _ in range(2):
            for layer in self.shared:
                x = layer(x)
        for layer in reversed(self.back):
            x = layer(x)
        x = self.picked[which](x)
        return sum(head(x) for head in self.heads.values())
net = Net().cuda()
for _ in range(2):
    net(torch.randn(32, 64, device="cuda"), 2).sum().backward()
"""


def modules_of(vramtrace, record, tmp_path, source, depth):
    """The modules of a script's peak, below the model."""
    script = tmp_path / "script.py"
    script.write_text(source)
    (device,) = vramtrace.json("peak", "--by", "module", "--depth", str(depth), record(script, env=WITH_NAMES).path)["devices"]
    return {row["module"].removeprefix("net.") for row in device["modules"] if row["module"]}


def test_what_order_does_not_tell_the_modules_do(vramtrace, record, tmp_path):
    """The same stacks come from other members, in any order, again and again, or of a dict."""
    names = modules_of(vramtrace, record, tmp_path, UNTOLD, 2)
    members = {"shared.0", "shared.1", "back.0", "back.1", "picked.2", "heads.one", "heads.two"}
    parts = {f"{member}{part}" for member in members for part in ("", ".up", ".down")}
    unused = {f"picked.{i}.{part}" for i in range(2) for part in ("up", "down")}  # their parameters are there
    assert names == parts | unused | {f"groups.{i}.layers.{k}" for i in range(2) for k in range(3)}


PASSED_OVER = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 64), nn.Linear(64, 64)
    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropped = nn.ModuleList([Inner() for _ in range(4)])
        self.whole = nn.ModuleList([Inner() for _ in range(3)])
        self.second = nn.ModuleList([Inner() for _ in range(4)])
        self.halves = nn.ModuleList([Inner() for _ in range(4)])
        self.closed = nn.ModuleList([Inner() for _ in range(2)])
        self.listed = nn.Sequential(nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Linear(64, 64), nn.Flatten(), nn.Linear(64, 64))
        parts = [nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Linear(64, 64)]
        self.unlisted = nn.Sequential(*parts)
        self.some = nn.ModuleList([Inner() if i % 2 else nn.Identity() for i in range(4)])
    def forward(self, x, rolls):
        for layer in self.dropped:
            if self.training and rolls.pop():
                continue
            x = layer(x)
        for layer in self.whole:
            if not self.training:
                continue
            x = layer(x)
        for i, layer in enumerate(self.second):
            if i % 2:
                x = layer(x)
        for i, layer in enumerate(self.halves):
            if i < 2:
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        for layer in self.closed:
            def custom(module):
                def forward(*inputs):
                    return module(*inputs)
                return forward
            x = checkpoint(custom(layer), x, use_reentrant=False)
        for layer in self.listed:
            x = layer(x)
        for layer in self.some:
            x = layer(x)
        return self.unlisted(x)
net = Net().cuda()
for rolls in ([0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]):
    net(torch.randn(4096, 64, device="cuda"), rolls).sum().backward()
"""


def test_members_that_are_passed_over_are_counted(vramtrace, record, tmp_path):
    """Members that are skipped, or allocate nothing, change no other's number."""
    names = modules_of(vramtrace, record, tmp_path, PASSED_OVER, 1)
    lists = {"dropped": 4, "whole": 3, "second": 4, "halves": 4, "closed": 2}
    members = {f"{name}.{i}" for name, nr in lists.items() for i in range(nr)}
    assert names == members | {"listed", "unlisted", "some.1", "some.3"}
    names = modules_of(vramtrace, record, tmp_path, PASSED_OVER, 2)
    assert {name for name in names if "listed." in name} == {"listed.0", "listed.2", "listed.4", "unlisted.0", "unlisted.2"}


METHODS = """
import torch
from torch import nn
class Tower(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.stem = nn.Linear(64, 64)
        self.blocks = nn.ModuleList([nn.Linear(64, 64) for _ in range(blocks)])
    def features(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.tanh(block(x))
        return x
    def forward(self, x):
        return self.features(x)
class Base(nn.Module):
    def trunk(self, x):
        return self.middle(x)
class Net(Base):
    def __init__(self):
        super().__init__()
        self.vision, self.text, self.other, self.looked_up = Tower(2), Tower(1), Tower(1), Tower(1)
        self.pair = nn.ModuleList([Tower(1), Tower(1)])
        self.middle, self.given = nn.Linear(64, 64), nn.Linear(64, 64)
    def encode(self, x):
        return self.vision.features(x)
    def forward(self, x):
        x = self.trunk(self.encode(x)) + self.text(x)
        pair=self.pair
        for tower in pair: x=tower.features(x)
        other=self.other
        x = other.features(x)
        x = torch.func.functional_call(self.given, dict(self.given.named_parameters()), (x,))
        return getattr(self, "looked_" + "up").features(x)
net = Net().cuda()
for _ in range(2):
    net(torch.randn(4096, 64, device="cuda")).sum().backward()
"""


def test_methods_of_members_are_within_them(vramtrace, record, tmp_path):
    """A forward may call another method of a member: what that calls is the member's, however it was found."""
    names = modules_of(vramtrace, record, tmp_path, METHODS, 4)
    towers = ("vision", "text", "other", "pair.0", "pair.1", "looked_up")
    one = {f"{tower}.{part}" for tower in towers for part in ("stem", "blocks.0")}
    assert names - {"", "net"} == one | {"vision.blocks.1", "middle", "text", "given"}


NESTED = """
import torch
from torch import nn
def part(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.Sequential(nn.LayerNorm(o), nn.Sequential(nn.ReLU(), nn.Linear(o, o))))
class Around(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(part(width, width), nn.Sequential(part(width, width)))
    def forward(self, x):
        return x + self.inner(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(part(32, 64), *[Around(64) for _ in range(3)], nn.Sequential(Around(64), Around(64)))
    def forward(self, x):
        return self.features(x)
net = nn.Sequential(Net()).cuda()
for _ in range(3):
    net(torch.randn(16, 32, device="cuda")).sum().backward()
"""


def test_sequences_within_sequences(vramtrace, record, tmp_path):
    """All stacks run through the same line, ever deeper."""
    names = modules_of(vramtrace, record, tmp_path, NESTED, 12)
    part = {"0", "1.0", "1.1.1"}
    inner = {f"inner.0.{leaf}" for leaf in part} | {f"inner.1.0.{leaf}" for leaf in part}
    features = {f"0.{leaf}" for leaf in part} | {f"{i}.{leaf}" for i in (1, 2, 3, "4.0", "4.1") for leaf in inner}
    made = {f"0.features.{leaf}" for leaf in features}
    assert made <= names
    around = {leaf.rpartition(".")[0] for leaf in made}
    relus = {f"{leaf.removesuffix('1.1.1')}1.1.0" for leaf in made if leaf.endswith("1.1.1")}
    assert all(name in made | relus or any(f"{leaf}.".startswith(f"{name}.") for leaf in around) for name in names), names - made


def test_modules_that_no_census_has_seen_have_their_class_and_number(vramtrace, record, tmp_path):
    """They are told apart by their classes and order, and a further step makes no further ones."""
    script = tmp_path / "unseen.py"
    script.write_text(
        "import torch\n"
        "class Block(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.inner = torch.nn.Linear(256, 256)\n"
        "    def forward(self, x):\n"
        "        return torch.relu(self.inner(x))\n"
        "blocks = [Block().cuda() for _ in range(3)]\n"
        "optimizer = torch.optim.SGD([p for block in blocks for p in block.parameters()], 0.1)\n"
        "for _ in range(7):\n"
        "    x = torch.randn(64, 256, device='cuda')\n"
        "    for block in blocks:\n"
        "        x = block(x)\n"
        "    x.sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    path = record(script, env={"VRAMTRACE_NAMES": "off"}).path
    (device,) = vramtrace.json("peak", "--by", "module", path)["devices"]
    names = {row["module"] for row in device["modules"] if row["module"]}
    assert {f"<Block>.{i}" for i in range(3)} <= {name.split(".<")[0] for name in names}
    assert not any(f"<Block>.{i}" in name for name in names for i in range(3, 30)), names


STEPS = {
    "sgd_momentum": 4, "adamw_foreach": 4, "adamw_fused": 4, "accumulate": 3, "recompute": 3, "mixed": 4, "in_backward": 3,
    "twice": 4, "adversarial": 3, "momentum_encoder": 4, "clipped": 3, "evaluations": 7, "averaged": 12,
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_found(vramtrace, recorded, name):
    recording = recorded(TRAIN, name)
    device = vramtrace.json("report", recording.path)["devices"][0]
    assert device["steps"]["count"] == STEPS[name]
    assert device["steps"]["growth_bytes_per_step"] in (None, 0)
    assert sum(phase["peak_bytes"] == device["tensor"]["peak_bytes"] for phase in device["phases"]) == 1
    assert device["peak_phase"] == max(device["phases"], key=lambda phase: phase["peak_bytes"])["phase"]


@pytest.mark.parametrize(("name", "count"), [("two_stages", 7), ("functional_steps", 4), ("penalty", 3)])
def test_steps_that_differ(vramtrace, recorded, name, count):
    """
    Optimizers that follow each other do not take turns; a pass for a part of the loss ends no step, one without another does.
    Three updates by a loop within one of another line are a step with it.
    """
    (device,) = vramtrace.json("report", recorded(TRAIN, name).path)["devices"]
    assert device["steps"]["count"] == count


TURNS = {
    "critic": 5, "critic_in_function": 5, "now_and_then": 10, "every_other_comes_first": 8, "remainder": 6, "one_before": 7,
    "resumed": 8, "without_state": 5,
}


@pytest.mark.parametrize("name", TURNS)
def test_steps_of_lines_that_take_turns(vramtrace, recorded, name):
    """The loop that holds them all counts, but not one over batches whose gradients add up."""
    (device,) = vramtrace.json("report", recorded("categories/turns.py", name).path)["devices"]
    assert device["steps"]["count"] == TURNS[name]


def test_steps_of_trainers(vramtrace, recorded):
    """Of transformers' 3 steps of two batches each, with evaluation between; of Lightning's 2 epochs of 8 batches by 2."""
    counts = [vramtrace.json("report", recorded(*job).path)["devices"][0]["steps"]["count"] for job in JOBS[-2:]]
    assert counts == [3, 8]


@pytest.mark.parametrize(("batch", "phases", "words"), [
    (2, ("optimizer",), "Tensors peak in optimizer.step, in step 2 of 3."),
    (16, ("forward", "backward"), "Tensors peak in forward, as it turns to backward, in step 2 of 3."),
])
def test_the_batch_decides_where_memory_peaks(vramtrace, recorded, batch, phases, words):
    """A model of the shape of Qwen2.5-1.5B: few tokens, and the optimizer's temporaries are the peak."""
    recording = recorded("qwen.py", batch)
    device = vramtrace.json("report", recording.path)["devices"][0]
    assert device["peak_phase"] in phases and device["peak_step"] == 2
    # What forward keeps is the peak: backward has only begun.
    assert device["peak_at_turn"] == (device["peak_phase"] == "backward")
    assert words in vramtrace.call("report", recording.path).stdout.splitlines()


PLAIN = """
import torch

torch.set_grad_enabled(False)


class Layer:
    def __init__(self):
        self.weight, self.keys = torch.randn(512, 512, device="cuda"), []

    def __call__(self, x):
        self.keys.append(x @ self.weight)
        return torch.cat(self.keys).softmax(-1)


layer = Layer()
for _ in range(8):
    layer(torch.randn(64, 512, device="cuda")).cpu()
"""


def test_nothing_is_claimed_where_no_forward_is_seen(vramtrace, tmp_path):
    """A model that is no module: weights, data and a cache look alike."""
    script = tmp_path / "plain.py"
    script.write_text(PLAIN)
    path = tmp_path / "plain.vtr"
    assert vramtrace.record(path, [sys.executable, script]).status == 0
    (device,) = vramtrace.json("report", path)["devices"]
    claimed = {name for name, count in device["categories_at_peak"].items() if count}
    assert "unknown" in claimed and claimed <= {"unknown", "workspace"}
    assert (device["peak_phase"], device["peak_step"], device["phases"]) == (None, None, [])
    page = vramtrace.call("report", path).stdout
    assert "No forward of a module was seen, so no steps or phases." in page.splitlines()
    assert "first forward" not in page and "init" not in page


BUILDING = """
import torch
with torch.device("cuda"):
    layers = [torch.nn.Linear(16384, 16384) for _ in range(9)]
"""


@pytest.mark.parametrize(("program", "phase"), [(PLAIN + "torch.empty(1 << 40, device='cuda')\n", None), (BUILDING, "init")],
                         ids=["plain", "building"])
def test_failure_has_the_phase_that_is_known(vramtrace, tmp_path, program, phase):
    """Before the first forward is where a model is made, not where there is none."""
    script = tmp_path / "ran_out.py"
    script.write_text(program)
    path = tmp_path / "ran_out.vtr"
    options = ("--simulate-capacity", "4GiB")
    assert vramtrace.record(path, [sys.executable, script], options=options).status == 1
    (device,) = vramtrace.json("oom", path)["devices"]
    assert [failure["phase"] for failure in device["failures"]] == [phase]
    (asked,) = [line for line in vramtrace.call("oom", path).stdout.splitlines() if line.startswith("asked ")]
    assert asked.split("B   ")[1].startswith("init, at " if phase else "at ")


def test_a_rule_of_the_users(vramtrace, recorded, tmp_path):
    recording = recorded(TRAIN, "sgd_momentum")
    rules = tmp_path / "rules"
    rules.write_text("train.py communication sgd_momentum any\n")
    done = vramtrace.call("peak", "--by", "category", recording.path, env={"VRAMTRACE_CATEGORIES": str(rules)})
    assert done.returncode == 0 and "communication" in done.stdout and "input" not in done.stdout
    rules.write_text("train.py data\n")
    done = vramtrace.call("peak", recording.path, env={"VRAMTRACE_CATEGORIES": str(rules)})
    assert done.returncode == 2 and f"'{rules}', line 1: no category has this name" in done.stderr


@pytest.mark.parametrize("names", ["oom", "off"])
def test_what_the_host_has_filled_is_data(vramtrace, tmp_path, names):
    """A fact where a census has seen it; what the device has computed is not, of the same sizes and as long."""
    run = vramtrace.record(tmp_path / "job.vtr", python("categories/from_host.py"), env={"VRAMTRACE_NAMES": names})
    told = json.loads(run.stdout)
    (device,) = vramtrace.json("peak", "--by", "block", "--at", "oom", run.path)["devices"]
    said = {int(block["address"], 16): block for block in device["blocks"]}
    assert {said[address]["category"] for address in told["host"]} == {"input"}
    assert {said[address]["category"] for address in told["parameters"]} == {"parameter"}
    assert "input" not in {said[address]["category"] for address in told["computed"][1:]}
    assert {said[address]["fact"] for address in told["host"]} == {names == "oom"}
    assert {said[address]["fact"] for address in told["computed"]} == {False}
