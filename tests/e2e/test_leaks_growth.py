# SPDX-License-Identifier: MIT
"""What grows from step to step is named by its line and to the byte; what does not grow is left alone."""

import json

import pytest

from harness import JOBS, WITH_NAMES, python
from test_leaks import line_of

PLANTED = JOBS / "leaks" / "planted.py"
# kind: class, verdict, the function of the planted line, the step that it began in
PLANTS = {
    "losses": ("graph_tensors", "leak", "losses", 1),
    "graphs": ("graph", "graph_retention", "graphs.<locals>.keep", 1),
    "history": ("tensors", "leak", "history.<locals>.keep", 1),
    "late": ("tensors", "leak", "late.<locals>.keep", 21),
    "shapes": ("shapes", "leak", "shapes.<locals>.keep", 1),
    "sequence": ("sequence", "kv_cache", "sequence.<locals>.keep", 1),
    "hook": ("hook", "leak", "hook.<locals>.remember", 1),
    "kept_outputs": ("hook", "leak", "outputs_of_hooked", 1),
    "root_outputs": ("hook", "leak", "outputs_of_hooked", 1),
    "every_hook": ("graph_tensors", "leak", "every_hook", 1),
    "full_hook": ("hook", "leak", "full_hook.<locals>.remember", 1),
    "inside": ("tensors", "leak", "Looking.forward", 1),
    "gradient_hook": ("hook", "leak", "gradient_hook.<locals>.remember", 1),
    "context": ("context", "leak", "Doubled.forward", 1),
    "driver": ("driver", "non_torch", "driver.<locals>.keep", 1),
    "library": ("driver", "non_torch", "library.<locals>.keep", 1),
    "accelerating": ("shapes", "leak", "accelerating.<locals>.keep", 1),
}
HEALTHY = [
    "warm_up", "evaluation", "lengths", "curriculum", "checkpoints", "accumulation", "allocator", "scheduler", "average",
    "loader", "masks", "finder", "epochs",
]
STEPS = 40


@pytest.fixture(scope="module", params=PLANTS)
def planted(request, recorded):
    done = recorded("leaks/planted.py", request.param, str(STEPS))
    assert done.status == 0, done.stderr
    return request.param, done


def test_planted_line_is_named(vramtrace, planted):
    """One finding, of the right kind, at the right line; where each step leaves the same, to the byte."""
    kind, done = planted
    what, verdict, function, first_step = PLANTS[kind]
    site = {"file": str(PLANTED), "line": line_of(PLANTED, f"# planted: {kind}"), "function": function}

    leaks = vramtrace.json("leaks", done.path)
    (growth,) = leaks["growth"]
    (cause,) = growth["causes"]
    (finding,) = leaks["findings"]
    assert (cause["site"], cause["class"], cause["first_step"]) == (site, what, first_step)
    assert (finding["site"], finding["verdict"]) == (site, verdict)
    assert vramtrace.json("report", done.path)["findings"] == leaks["findings"]
    assert cause["is_finding"] and finding["bytes"] == cause["grown_bytes"] > 0
    if "bytes_per_step" in done.ledger:
        exact = done.ledger["bytes_per_step"]
        slopes = [cause[key] for key in ("bytes_per_step_low", "bytes_per_step", "bytes_per_step_high")]
        assert slopes == [exact] * 3
        assert growth["bytes_per_step"] == exact
    else:
        assert cause["last_bytes"] <= done.ledger["bytes"]


def test_keeper_needs_evidence(vramtrace, planted):
    """Who keeps it is said where something shows it, and nowhere else."""
    kind, done = planted
    (cause,) = vramtrace.json("leaks", done.path)["growth"][0]["causes"]
    says = {"graphs": "keeper_is_graph", "hook": "keeper_is_hook", "gradient_hook": "keeper_is_hook",
            "full_hook": "keeper_is_hook", "context": "keeper_is_context", "kept_outputs": "keeper_is_hook_or_caller",
            "root_outputs": "keeper_is_hook_or_caller"}.get(kind)  # fmt: skip
    if says:
        assert cause["kept_by"]["facts"]["says"] == says
    elif kind == "history":  # the list is emptied in one line
        assert cause["kept_by"]["site"]["line"] == line_of(PLANTED, "# freed: history")
        assert cause["kept_by"]["freed"] == cause["kept"] == STEPS - 1
    else:  # among them a local dictionary, which ends as the program's outermost line does: that is nobody's keeper
        assert cause["kept_by"] is None


def test_what_varies_is_no_other_growth(vramtrace, recorded):
    """What batches of many sizes leave neither accelerates nor begins in the middle; the program's line is the headline."""
    done = recorded("leaks/planted.py", "varying", "100")
    (growth,) = vramtrace.json("leaks", done.path)["growth"]
    (cause,) = growth["causes"]
    line = line_of(PLANTED, "# planted: varying")
    assert (cause["site"]["line"], cause["caller"]) == (line, None)
    assert cause["first_step"] == 16 and cause["shape"] == "steady" and growth["believed"] == "linear"
    true = done.ledger["bytes"] / 85
    assert cause["bytes_per_step_low"] <= true <= cause["bytes_per_step_high"]
    assert f" at planted.py:{line}" in vramtrace.call("leaks", done.path).stdout.splitlines()[0]


def test_cache_of_a_generation_without_steps(vramtrace, recorded):
    done = recorded("leaks/planted.py", "generation", "4000")
    (growth,) = vramtrace.json("leaks", done.path)["growth"]
    (cause,) = growth["causes"]
    assert (growth["by"], cause["class"]) == ("events", "sequence")
    assert cause["site"]["line"] == line_of(PLANTED, "# planted: generation")
    assert [finding["verdict"] for finding in vramtrace.json("leaks", done.path)["findings"]] == ["kv_cache"]


def test_cache_that_is_let_go(vramtrace, recorded):
    """A cache of one generation gets longer to the end of it, and is gone then: memory does not run out."""
    done = recorded("leaks/healthy.py", "generation", "4000")
    leaks = vramtrace.json("leaks", done.path)
    (growth,) = leaks["growth"]
    assert leaks["findings"] == [] and growth["predicted_oom_event"] is None
    assert [cause["let_go"] for cause in growth["causes"]] == [True]
    text = vramtrace.call("leaks", done.path).stdout.splitlines()
    assert text[0] == "No steps of training were found; what grew was let go before the end."
    assert len(text) <= 24 and max(map(len, text)) <= 80, text


def test_states_that_are_cut(vramtrace, tmp_path):
    """What is kept of each sitting is cut to its window, and the oldest makes way: memory as a whole does not grow."""
    command = python(JOBS / "leaks" / "healthy.py", "sittings", "300")
    done = vramtrace.record(tmp_path / "job.vtr", command, env=WITH_NAMES)
    leaks = vramtrace.json("leaks", done.path)
    (growth,) = leaks["growth"]
    assert leaks["findings"] == [] and growth["predicted_oom_call"] is None
    assert growth["causes"] and all(cause["offset"] and not cause["is_finding"] for cause in growth["causes"])
    text = vramtrace.call("leaks", done.path).stdout.splitlines()
    assert text[0].startswith("No steps of training were found; memory does not grow in ")
    note = " ".join(line.strip() for line in text[1:3])
    assert note.startswith("note: memory as a whole does not grow, but what is kept at healthy.py:") and max(map(len, text)) <= 80


@pytest.mark.parametrize("kind", ["longer", "resolution"])
def test_batch_that_is_longer_in_each_step(vramtrace, recorded, kind):
    """What a step leaves until the next has made it anew follows the batch: no finding, and it says so."""
    done = recorded("leaks/healthy.py", kind, str(STEPS))
    leaks = vramtrace.json("leaks", done.path)
    (growth,) = leaks["growth"]
    assert leaks["findings"] == [] and growth["predicted_oom_step"] is None
    assert growth["causes"] and all(cause["follows_batch"] for cause in growth["causes"])
    text = vramtrace.call("leaks", done.path).stdout.splitlines()
    assert text[0] == "Memory grows as the batch does, which is larger in each step."
    assert len(text) <= 24 and max(map(len, text)) <= 80, text
    assert vramtrace.json("report", done.path)["findings"] == []


def test_batch_that_is_put_together(vramtrace, recorded):
    """A batch of all data so far grows by a piece in each step: not the batch's own way, but what is kept."""
    done = recorded("leaks/planted.py", "everything", str(STEPS))
    (growth,) = vramtrace.json("leaks", done.path)["growth"]
    (cause,) = growth["causes"]
    assert (cause["class"], cause["is_finding"], cause["follows_batch"]) == ("sequence", True, False)
    assert cause["site"]["line"] == line_of(PLANTED, "# planted: everything")
    assert cause["bytes_per_step"] == done.ledger["bytes_per_step"]


def test_bank_beside_longer_batches(vramtrace, recorded):
    """What is put together of all batches does not follow the batch, though that gets longer, too."""
    done = recorded("leaks/planted.py", "bank", str(STEPS))
    causes = vramtrace.json("leaks", done.path)["growth"][0]["causes"]
    bank = next(cause for cause in causes if cause["site"]["line"] == line_of(PLANTED, "# planted: bank"))
    assert (bank["class"], bank["is_finding"], bank["follows_batch"]) == ("sequence", True, False)
    assert bank["last_bytes"] <= done.ledger["bytes"]
    assert all(cause["follows_batch"] for cause in causes if cause is not bank)


def test_known_keeper_comes_first(vramtrace, record, tmp_path):
    """A context that is kept keeps the input, too, which grows as fast: its own line is the headline."""
    script = tmp_path / "swish.py"
    script.write_text(
        "import torch\n"
        "contexts = []\n"
        "class Swish(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        ctx.x, ctx.s = x, torch.sigmoid(x)\n"
        "        contexts.append(ctx)\n"
        "        return x * ctx.s\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        return g * ctx.s\n"
        "layer = torch.nn.Linear(512, 1024).cuda()\n"
        "optimizer = torch.optim.SGD(layer.parameters(), 0.1)\n"
        "for _ in range(20):\n"
        "    hidden = layer(torch.randn(1024, 512, device='cuda'))\n"
        "    Swish.apply(hidden).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    path = record(script).path
    causes = vramtrace.json("leaks", path)["growth"][0]["causes"]
    assert [cause["site"]["line"] for cause in causes] == [6, 15]
    assert [cause["bytes_per_step"] for cause in causes] == [4 << 20] * 2
    assert vramtrace.call("leaks", path).stdout.startswith("Memory grows by 8.00 MiB a step at swish.py:6, and would fill near step ")


MEMBERS = """
import copy, torch
model, members = torch.nn.Linear(2048, 2048).cuda(), []
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(60):
    model(torch.randn(64, 2048, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 9:
        members.append(copy.deepcopy(model))  # kept
"""


@pytest.mark.parametrize("ends_well", [True, False])
def test_rare_growth_of_a_program_that_has_ended(vramtrace, record, tmp_path, ends_well):
    """Members of an ensemble come now and then: no step at which memory would be full is told where no more are to come."""
    script = tmp_path / "members.py"
    script.write_text(MEMBERS + ("" if ends_well else "raise SystemExit(3)\n"))
    path = record(script).path
    (growth,) = vramtrace.json("leaks", path)["growth"]
    assert [(cause["is_finding"], cause["site"]["line"], cause["rises"]) for cause in growth["causes"]] == [(True, 10, 5)]
    page = vramtrace.call("leaks", path).stdout
    assert page.startswith("Memory grew in 5 of 60 steps at members.py:10, and the program has ended.") == ends_well, page
    assert (" near step " in page) != ends_well


def test_a_little_that_comes_rarely_is_a_note(vramtrace, record, tmp_path):
    """Members of less than a hundredth of the peak: where no more are to come, how much longer a run could be does not count."""
    script = tmp_path / "members.py"
    script.write_text("import torch\nscenes = torch.zeros(1 << 30, device='cuda')\n" + MEMBERS.replace("2048", "512"))
    leaks = vramtrace.json("leaks", record(script).path)
    (growth,) = leaks["growth"]
    assert not leaks["findings"] and [cause["is_finding"] for cause in growth["causes"]] == [False]


BUFFER = """\
import collections, functools, torch
recent = collections.deque(maxlen={bound})
@functools.lru_cache(maxsize={bound})
def table(number):
    return torch.zeros(1 << 21, device="cuda")  # made
layer = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for number in range(40):
    state = torch.randn(1 << 21, device="cuda")  # kept
    {keep}
    layer(torch.randn(8, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 35:
        try:
            torch.empty(1 << 50, device="cuda")  # a census is taken
        except torch.OutOfMemoryError:
            pass
"""


@pytest.mark.parametrize(("keep", "mark"), [
    ("recent.append(state)", "kept"), ("recent.append((number, state))", "kept"), ("table(number)", "made"),
], ids=["tensors", "tuples", "cache"])  # fmt: skip
@pytest.mark.parametrize(("bound", "fits"), [(200, True), (2000, False), (None, False)])
def test_buffer_that_fills(vramtrace, record, tmp_path, keep, mark, bound, fits):
    """What takes so many entries at most is no leak if they fit; else it is told how much it would be."""
    script = tmp_path / "buffer.py"
    script.write_text(BUFFER.format(bound=bound, keep=keep))
    options = ("--simulate-capacity", "4GiB")
    path = record(script, options=options, env=WITH_NAMES).path
    told = vramtrace.json("leaks", path)
    cause = told["growth"][0]["causes"][0]
    assert (cause["site"]["line"], cause["bytes_per_step"]) == (line_of(script, f"# {mark}"), 8 << 20)
    assert (cause["fills_up"], cause["is_finding"], cause["certainty"]) == (fits, not fits, "proven")
    (keeper,) = [keeper for keeper in cause["keepers"] if keeper.get("length")][-1:]
    assert (keeper.get("bound"), keeper["length"]) == (bound, 36)
    text = vramtrace.call("leaks", path).stdout
    assert text.startswith("Memory grows in a container with a limited number of entries" if fits else "Memory grows by")
    assert max(map(len, text.splitlines())) <= 80
    bounds = [facts for finding in told["findings"] for facts in finding["evidence_facts"] if facts["says"] == "keeper_fills"]
    if bound and not fits:
        (full,) = bounds
        assert (full["bound"], full["full_bytes"]) == (bound, bound * (8 << 20))
    else:
        assert not bounds


UNFROZEN = """\
import torch
parts = torch.nn.ModuleList(torch.nn.Linear(1024, 1024) for _ in range(24)).cuda().requires_grad_(False)
older = []
{optimizer}
for step in range(48):
    if step % 2 == 0:
        parts[step // 2].requires_grad_(True)
        {unfreeze}
    x = torch.randn(8, 1024, device="cuda")
    for part in parts:
        x = part(x)
    x.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == {census}:
        try:
            torch.empty(1 << 50, device="cuda")  # a census is taken
        except torch.OutOfMemoryError:
            pass
"""
GROUPS = {
    "optimizer": 'optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1, device="cuda"))])',
    "unfreeze": "optimizer.add_param_group({'params': list(parts[step // 2].parameters())})",
}
ANEW = {"optimizer": "", "unfreeze": "optimizer = torch.optim.Adam(parts[0].parameters()); older.append(optimizer)"}


@pytest.mark.parametrize(
    ("how", "census", "is_bounded"), [(GROUPS, 44, True), (GROUPS, 10, True), (ANEW, 44, False), (ANEW, 10, False)], ids=["groups", "groups_early", "anew", "anew_early"]
)
def test_state_of_parameters_that_are_unfrozen(vramtrace, record, tmp_path, how, census, is_bounded):
    """An optimizer has state of each parameter once: what grows so has an end, also after the census. What older optimizers have has none."""
    script = tmp_path / "unfrozen.py"
    script.write_text(UNFROZEN.format(**how, census=census))
    path = record(script, options=("--simulate-capacity", "4GiB"), env=WITH_NAMES).path
    growth = vramtrace.json("leaks", path)["growth"][0]
    assert {(cause["fills_up"], cause["is_finding"]) for cause in growth["causes"]} == {(is_bounded, not is_bounded)}
    text = vramtrace.call("leaks", path).stdout
    assert text.startswith("Memory grows by the optimizer's state of parameters" if is_bounded else "Memory grows by 6")


MADE_ANEW = """\
import torch
parts = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(24))).cuda().requires_grad_({trained})
optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)

class Tap:
    def __init__(self, part):
        part.register_forward_hook(self.take)

    def take(self, part, given, answer):
        self.answer = answer.detach().abs()

for step in range(48):
    if step % 2 == 0:
        {add}
    loss = parts(torch.randn(1024, 1024, device="cuda")).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("trained", "add", "grows"), [(True, "Tap(parts[2])", True), (False, "parts[-1 - step // 2].requires_grad_(True)", False)],
                         ids=["taps", "gradients"])  # fmt: skip
def test_what_each_step_makes_anew(vramtrace, record, tmp_path, trained, add, grows):
    """Hooks that pile up each store another tensor in each step: more and more. So do gradients, up to the last layer."""
    script = tmp_path / "anew.py"
    script.write_text(MADE_ANEW.format(trained=trained, add=add))
    told = vramtrace.json("leaks", record(script).path)
    assert len(told["findings"]) == grows
    for finding in told["findings"]:
        assert finding["site"]["line"] == 1 + script.read_text().partition("self.answer =")[0].count("\n")
        (anew,) = [facts for facts in finding["evidence_facts"] if facts["says"] == "made_anew"]
        assert anew["tensors"] == 24


POOL = """\
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pool = []
for step in range(160):
    side = 256 * (1 + step // 20) - step * 37 % 128
    fresh = torch.randn(side, 256, device="cuda")
    if len(pool) < {most}:
        pool.append(fresh)
    else:
        pool[step % {most}] = fresh
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("most", [24, 1000])
def test_what_takes_the_places_of_others(vramtrace, record, tmp_path, most):
    """A pool that is full gets larger entries for smaller ones: as many as before. One that is not has ever more."""
    script = tmp_path / "pool.py"
    script.write_text(POOL.format(most=most))
    assert len(vramtrace.json("leaks", record(script).path)["findings"]) == (most == 1000)


def test_first_screen(vramtrace, planted):
    text = vramtrace.call("leaks", planted[1].path).stdout.splitlines()
    assert len(text) <= 24 and max(map(len, text)) <= 80, text
    report = vramtrace.call("report", planted[1].path).stdout
    assert "Memory grows by " in report and len(report.splitlines()) <= 24


def test_pinned_memory_of_the_host(vramtrace, recorded):
    done = recorded("leaks/planted.py", "pinned", str(STEPS))
    leaks = vramtrace.json("leaks", done.path)
    device, host = leaks["growth"]
    assert (device["memory"], device["causes"], host["memory"], host["device"]) == ("device", [], "host", None)
    (cause,) = host["causes"]
    assert (cause["class"], cause["site"]["line"]) == ("host", line_of(PLANTED, "# planted: pinned"))
    assert cause["bytes_per_step"] == done.ledger["bytes_per_step"] and cause["first_step"] == 1
    assert [finding["site"] for finding in leaks["findings"]] == [cause["site"]]
    assert vramtrace.json("report", done.path)["findings"] == leaks["findings"]
    text = vramtrace.call("leaks", done.path).stdout.splitlines()
    assert len(text) <= 24 and max(map(len, text)) <= 80, text
    line = f"Host memory for the GPU grows by 1.00 MiB a step at planted.py:{cause['site']['line']}."
    assert line in text
    page = vramtrace.call("report", done.path).stdout.splitlines()
    assert line in page and f"next: vramtrace leaks {done.path}" in page
    assert len(page) <= 24 and all(len(row) <= 80 or str(done.path) in row for row in page), page


def test_growth_without_steps_is_by_calls(vramtrace, recorded):
    """Each call of the model leaves what it has computed for 16 to 255 rows, 64 times."""
    done = recorded("leaks/planted.py", "serving", "2000")
    leaks = vramtrace.json("leaks", done.path)
    (growth,) = leaks["growth"]
    (finding,) = leaks["findings"]
    assert (growth["by"], growth["steps"], growth["bytes_per_step"]) == ("call", 0, None)
    assert growth["causes"][0]["site"] == finding["site"]
    true = done.ledger["bytes"] / 2000
    assert growth["causes"][0]["bytes_per_call_low"] <= true <= growth["causes"][0]["bytes_per_call_high"]
    assert (finding["verdict"], finding["site"]["line"]) == ("leak", line_of(PLANTED, "# planted: serving"))
    text = vramtrace.call("leaks", done.path).stdout.splitlines()
    assert len(text) <= 24 and max(map(len, text)) <= 80, text
    assert text[0].startswith("Memory grows by ") and " a call" in text[0]
    assert "no steps of training were found: growth is given per call of the model" in text


@pytest.mark.parametrize("kind", ["serving", "loading"])
def test_nothing_is_invented_without_steps(vramtrace, recorded, kind):
    done = recorded("leaks/healthy.py", kind, "1500")
    assert vramtrace.json("leaks", done.path)["findings"] == []
    text = vramtrace.call("leaks", done.path).stdout.splitlines()
    assert text[0].startswith("No steps of training were found") and len(text) <= 24 and max(map(len, text)) <= 80
    steps = vramtrace.json("report", done.path)["devices"][0]["steps"]
    assert (steps["count"], steps["growth_bytes_per_step"]) == (0, None)


def test_exit_codes(vramtrace, recorded):
    leaking = recorded("leaks/planted.py", "driver", str(STEPS)).path
    healthy = recorded("leaks/healthy.py", "warm_up", str(STEPS)).path
    assert vramtrace.call("leaks", leaking).returncode == 0
    assert vramtrace.call("leaks", "--exit-code", leaking).returncode == 1
    assert vramtrace.call("leaks", "--exit-code", healthy).returncode == 0
    assert vramtrace.call("leaks", "--warn-growth", "1MiB/1step", leaking).returncode == 1
    assert vramtrace.call("leaks", "--warn-growth", "5MiB/1step", leaking).returncode == 0
    assert vramtrace.call("leaks", "--warn-growth", "1%/10steps", leaking).returncode == 1
    assert vramtrace.call("leaks", "--warn-growth", "1%/10steps", healthy).returncode == 0


@pytest.mark.parametrize("kind", HEALTHY)
def test_nothing_is_invented(vramtrace, recorded, kind):
    """Memory that is the same from step to step, in the end, is no finding and not even a note, and not fragmented."""
    done = recorded("leaks/healthy.py", kind, str(STEPS))
    assert done.status == 0, done.stderr
    leaks = vramtrace.json("leaks", done.path)
    assert leaks["findings"] == [] and [growth["causes"] for growth in leaks["growth"]] == [[]]
    text = vramtrace.call("leaks", done.path).stdout
    assert "Memory does not grow from step to step" in text and len(text.splitlines()) <= 24
    assert vramtrace.json("frag", done.path)["findings"] == []
    (device,) = vramtrace.json("report", done.path)["devices"]
    assert device["steps"]["count"] >= STEPS - 1 and device["steps"]["predicted_oom_step"] is None


@pytest.mark.parametrize("kind", ["driver", "accelerating"])
def test_coming_end_is_foretold(vramtrace, tmp_path, kind):
    """From the first steps on a small GPU: the step in which a longer run of the same job runs out of memory."""
    small = ("--simulate-capacity", "2GiB")
    job = lambda steps: python("leaks/planted.py", kind, str(steps))
    first = vramtrace.record(tmp_path / "first.vtr", job(STEPS), options=small)
    assert first.status == 0, first.stderr
    growth = vramtrace.json("leaks", first.path)["growth"][0]
    whole = vramtrace.record(tmp_path / "whole.vtr", job(2000), options=small)
    assert whole.status != 0
    (device,) = vramtrace.json("report", whole.path)["devices"]
    end = device["steps"]["count"] + 1  # the step that did not get as far as the next
    assert abs(growth["predicted_oom_step"] - end) <= 0.03 * end, json.dumps(growth)
    assert growth["believed"] == ("quadratic" if kind == "accelerating" else "linear")


CONCATENATED = """
import torch

model = torch.nn.Linear(256, 256, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
memory = [torch.zeros(0, 256, device="cuda") for _ in range(2)]
for step in range(int(__import__("sys").argv[1])):
    y = model(torch.randn(512, 256, device="cuda"))
    y.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    for i in range(2):
        memory[i] = torch.cat([memory[i], y.detach()])
    print(step + 1, flush=True)
"""


def test_coming_end_of_what_is_copied_to_grow(vramtrace, tmp_path):
    """torch.cat() needs the longer tensor beside the shorter one, and each time more: memory runs out a third earlier."""
    script = tmp_path / "concatenated.py"
    script.write_text(CONCATENATED)
    small = ("--simulate-capacity", "1GiB")
    first = vramtrace.record(tmp_path / "first.vtr", python(script, str(STEPS)), options=small)
    (growth,) = vramtrace.json("leaks", first.path)["growth"]
    whole = vramtrace.record(tmp_path / "whole.vtr", python(script, "2000"), options=small)
    assert "OutOfMemoryError" in whole.stderr
    end = int(whole.stdout.split()[-1]) + 1
    assert abs(growth["predicted_oom_step"] - end) <= 0.03 * end, json.dumps(growth)


def test_capacity_that_is_passed_already(vramtrace, recorded):
    """Beyond what `--capacity` leaves no coming step is foretold: memory is short already."""
    path = recorded("leaks/planted.py", "history", str(STEPS)).path
    growth = vramtrace.json("leaks", path)["growth"][0]
    assert not growth["beyond_capacity"]
    room = int(growth["overhead_bytes"] + growth["causes"][0]["last_bytes"])
    beyond = vramtrace.json("leaks", "--capacity", f"{room}", path)["growth"][0]
    assert beyond["beyond_capacity"] and beyond["predicted_oom_step"] is None
    text = vramtrace.call("leaks", "--capacity", f"{room}", path).stdout
    assert "already beyond the capacity" in text and "near step" not in text and "chosen" not in text
    ahead = vramtrace.json("leaks", "--capacity", f"{room + (1 << 30)}", path)["growth"][0]
    assert not ahead["beyond_capacity"] and ahead["predicted_oom_step"] > STEPS


METER = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = torch.zeros((), device="cuda")
for step in range(40):
    rows = torch.randn(128, 256, device="cuda")
    model(rows).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    total = total + model(rows).mean()  # never detached
"""


def test_line_that_holds_comes_before_what_it_holds(vramtrace, record, tmp_path):
    """A sum that is never detached keeps each step's graph, and by that the batch, which grows just as fast."""
    script = tmp_path / "meter.py"
    script.write_text(METER)
    (growth,) = vramtrace.json("leaks", record(script).path)["growth"]
    assert [cause["site"]["line"] for cause in growth["causes"]] == [line_of(script, "never detached"), line_of(script, "rows =")]
    assert {cause["bytes_per_step"] for cause in growth["causes"]} == {128 << 10}


RUNNING_MEAN = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mean = torch.zeros(256, 256, device="cuda")
for step in range(40):
    rows = torch.randn(256, 256, device="cuda")
    result = model(rows)
    result.square().mean().backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    mean = 0.9 * mean + 0.1 * torch.tanh(result)  # never detached
"""


def test_what_is_made_after_the_update_is_no_graphs(vramtrace, record, tmp_path):
    """A list keeps exceptions: their frames hold the outputs of the step, and what the function that failed had made."""
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(2)]).cuda()\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "errors = []\n"
        "def check(batch, output, loss):\n"
        "    table = torch.zeros(1 << 19, device='cuda')\n"
        "    raise ValueError\n"
        f"for _ in range({STEPS}):\n"
        "    optimizer.zero_grad()\n"
        "    batch = torch.randn(128, 512, device='cuda')\n"
        "    output = model(batch)\n"
        "    loss = output.square().mean()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    try:\n"
        "        check(batch, output, loss)\n"
        "    except ValueError as error:\n"
        "        errors.append(error)\n"
    )
    cause = vramtrace.json("leaks", record(script).path)["growth"][0]["causes"][0]
    assert (cause["class"], cause["site"]["line"], cause["bytes_per_step"]) == ("tensors", 6, 2 << 20)


def test_graph_of_a_running_mean(vramtrace, record, tmp_path):
    """A mean over steps that holds their graphs is one cause, named for the line that makes the mean; the last has no next."""
    script = tmp_path / "mean.py"
    script.write_text(RUNNING_MEAN)
    (growth,) = vramtrace.json("leaks", record(script).path)["growth"]
    (cause,) = growth["causes"]
    assert (cause["class"], cause["site"]["line"]) == ("graph", line_of(script, "never detached"))
    assert cause["bytes_per_step"] == 3 * (256 << 10)


HOOKED_LAYERS = """
import torch
from torch import nn
model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []
for layer in model:
    layer.register_forward_hook(lambda module, rows, result: seen.append(result.detach()))
for step in range(20):
    result = model(torch.randn(256, 256, device="cuda"))
    optimizer.zero_grad()
    result.square().mean().backward()
    optimizer.step()
"""


def test_outputs_that_hooks_keep_are_no_graph(vramtrace, record, tmp_path):
    """Where each layer has a hook, and nothing but layers' outputs stays, no graph is what keeps them."""
    script = tmp_path / "hooked.py"
    script.write_text(HOOKED_LAYERS)
    (growth,) = vramtrace.json("leaks", record(script).path)["growth"]
    (cause,) = growth["causes"]
    assert (cause["class"], cause["site"]["line"]) == ("graph_tensors", line_of(script, "result = model"))
    assert (cause["bytes_per_step"], cause["kept_by"]) == (4 * (256 << 10), None)


UNEVEN = """
import torch
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range(12):
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.empty((1 + step * step * 7 % 11) << 20, dtype=torch.uint8, device="cuda"))
"""


def test_text_tells_the_range_of_json(vramtrace, record, tmp_path):
    """Of few uneven steps a bend is not ruled out: both say between which steps memory runs out, not one fit's own range."""
    script = tmp_path / "uneven.py"
    script.write_text(UNEVEN)
    recording = record(script).path
    (growth,) = vramtrace.json("leaks", recording)["growth"]
    low, high, fit = growth["predicted_oom_step_low"], growth["predicted_oom_step_high"], growth[growth["believed"]]
    assert low < fit["limit_step_low"] or high is None or high > fit["limit_step_high"] + 1
    text = vramtrace.call("leaks", recording).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("  in all")]
    assert f"step {low:,} to {'never' if high is None else f'{high:,}'}:" in line


NOW_AND_THEN = """
import random, sys, torch
random.seed(int(sys.argv[1]))
model, kept = torch.nn.Linear(1024, 1024, device="cuda"), []
with torch.no_grad():
    for call in range(60):
        picture = model(torch.randn(random.randrange(1024, 8192), 1024, device="cuda"))
        if random.random() < 0.15:
            kept.append(picture)
"""


@pytest.mark.parametrize(("seed", "may_end"), [(7, True), (4, False)])
def test_growth_that_may_end_is_not_said_to_run_out(vramtrace, record, tmp_path, seed, may_end):
    """Where the fit that is believed has no latest call, the headline gives none either."""
    script = tmp_path / "now_and_then.py"
    script.write_text(NOW_AND_THEN)
    recording = record(script, str(seed), options=("--simulate-capacity", "4GiB")).path
    (growth,) = vramtrace.json("leaks", recording)["growth"]
    assert (growth[growth["believed"]]["limit_step_high"] is None) == may_end
    headline = vramtrace.call("leaks", recording).stdout.splitlines()[0]
    assert (", and may run out from call " in headline and headline.endswith(" on, or never.")) == may_end, headline
    assert (", and would fill near call " in headline) != may_end


TWO_LOOPS = """
import torch
model, judge = torch.nn.Linear(64, 64).cuda(), torch.nn.Linear(64, 64).cuda()
first = torch.optim.Adam(model.parameters())
second = torch.optim.Adam(judge.parameters())
for step in range(9):
    for turn in range(3):
        second.zero_grad()
        judge(torch.randn(8, 64, device="cuda")).sum().backward()
        second.step()
    first.zero_grad()
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    first.step()
"""


def test_source_that_was_edited_is_not_read(vramtrace, record, tmp_path):
    """Loops are those of the source that ran: one that was changed since is not looked at, which a note says once."""
    script = tmp_path / "edited.py"
    script.write_text(TWO_LOOPS)
    recording = record(script).path
    before = vramtrace.call("leaks", "--json", recording)
    assert json.loads(before.stdout)["growth"][0]["steps"] == 9 and "changed" not in before.stderr
    script.write_text("pass\n" * len(TWO_LOOPS.splitlines()))
    after = vramtrace.call("leaks", "--json", recording)
    assert json.loads(after.stdout) == json.loads(before.stdout)
    assert after.stderr.count(f"'{script}' was changed after the recording began") == 1
