# SPDX-License-Identifier: MIT
"""The census: what the copy of a process finds, against what the program knows; and that the program never notices.

The files are read by the second reader (tests/spec), which was written from FORMAT.md alone.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness import TREE, WITH_NAMES, program_environment, python

sys.path.append(str(TREE / "tests" / "spec"))

from vtf import Refused  # noqa: E402
from vtf_census import COLLECTOR, FAULT, WHOLE, Census, censuses  # noqa: E402

MODELS = (
    "plain ddp fsdp2 compiled resnet convnext swin efficientnet vit mobilenet mixer deit regnet llama mistral qwen gpt2 t5 "
    "bert lora unet resumed"
).split()
MODEL, OPTIMIZER = "main().model.", "main().optimizer.state"

KEEPERS = {
    "list": "main().owner.history[0]",
    "list 1": "main().owner.history[1]",
    "dict": "main().owner.table['key']",
    "dict of numbers": "main().owner.table[7]",
    "set": "main().owner.group~Tensor",
    "deque": "main().owner.queue~Tensor",
    "class attribute": "Owner.class_attribute",
    "module global": "module_global",
    "slots": "main().slotted.held",
    "dataclass": "main().record.field",
    "closure": "main().closure{captured}",
    "default argument": "with_default(value=)",
    "named default": "with_default(named=)",
    "lru_cache": "cached~Tensor",
    "partial": "main().partial.args[0]",
    "generator": "main().running/generate().mine",
    "hook": "main().by_hooks['out']",
    "ctx": "main().context~ContextBackward.kept",
    "exception": "main().error~traceback~traceback/raise_with_tensor().inner",
    "last exception": "sys.last_traceback~traceback/raise_with_tensor().inner",
    "weak and strong": "main().strong",
    "cycle": "<cycle of Node>.payload",
    "array of objects": "main().row[1]",
    "array of two dimensions": "main().plane~Tensor",
    "view of an array": "main().view[0]",
    "class of arrays": "main().labelled[0]",
    "thread": "wait_in_thread().in_thread",
}


def at_failure(recording):
    """The census that was taken when memory ran out; it was finished."""
    (found,) = (one for one in censuses(recording) if one.why == 1)
    assert found.flags == WHOLE | COLLECTOR
    assert found.nr_tensors == len(found.tensors)
    return found


def names_of(census):
    """Names by address; of a sharded tensor, the part on this device goes by the tensor's."""
    return {
        address: {name.replace("._local_tensor", "") for name in names} for address, names in census.names().items()
    }


@pytest.mark.parametrize("model", MODELS)
def test_names_are_those_of_the_model(recorded, model):
    """Parameters, buffers, gradients and the optimizer's state go by the names that PyTorch gives them, all of them."""
    run = recorded("census/of_models.py", model)
    assert run.status == 0, run.stderr
    truth, names = json.loads(run.stdout), names_of(at_failure(run.path))
    assert truth["parameters"] and truth["gradients"] and truth["states"]
    del truth["calls"]
    for kind, known in truth.items():
        for address, wanted in known.items():
            if kind == "states":
                wanted = [f"{OPTIMIZER}[{MODEL}{name}]['{key}']" for key, name in (one.split(" of ") for one in wanted)]
            else:
                wanted = [f"{MODEL}{one}{'.grad' if kind == 'gradients' else ''}" for one in wanted]
            assert names[int(address)] & set(wanted), f"{kind}: {wanted}"


# Of what a model holds: what the analyzer says it is for, and what it calls it.
SAID = {
    "parameters": ("parameter", "model.{}"),
    "buffers": ("buffer", "model.{}"),
    "gradients": ("gradient", "model.{}.grad"),
    "states": ("optimizer_state", "{}"),
}


@pytest.mark.parametrize("model", MODELS)
def test_categories_are_facts(vramtrace, recorded, model):
    """To the byte: each of these blocks is said to be what it is, by one of its names, and no other block is."""
    run = recorded("census/of_models.py", model)
    (device,) = vramtrace.json("peak", "--by", "block", "--at", "oom", run.path)["devices"]
    blocks, truth = {int(block["address"], 16): block for block in device["blocks"]}, json.loads(run.stdout)
    for kind, (category, text) in SAID.items():
        for address, names in truth[kind].items():
            wanted = {text.format(one.replace(" of ", " of model.")) for one in names}
            said = blocks.pop(int(address))
            assert (said["category"], said["name"] in wanted) == (category, True), (said["name"], wanted)
    # An earlier job's weights are weights, too.
    others = [block for block in blocks.values() if not (block["name"] or "").startswith("checkpoint['model']")]
    assert not {block["category"] for block in others} & {category for category, _ in SAID.values()}


def modules_by_hooks(allocations, calls):
    """By ordinal: the module in whose forward it was made. The innermost call begins last, and ends first."""
    found = {}
    for name, first, last in sorted(reversed(calls), key=lambda call: (call[1], -call[2])):
        found |= {event["ordinal"]: name for event in allocations[first:last] if event["phase"] == "forward"}
    return found


# Hooks of compiled models would be compiled; what FSDP gathers for a module's forward, it gathers before our hook of it.
@pytest.mark.parametrize("model", [model for model in MODELS if model not in ("compiled", "fsdp2")])
def test_forward_allocations_are_in_their_modules(vramtrace, recorded, events_of, model):
    """Of all that is live at the peak, and at ten other moments: never in a wrong module, unknown at most 1% of the bytes."""
    run = recorded("census/of_models.py", model)
    allocations = [event for event in events_of(run.path) if event["kind"] == "tensor_alloc"]
    true = modules_by_hooks(allocations, json.loads(run.stdout)["calls"])
    times = [event["time_ns"] for event in allocations]
    moments = [()] + [("--at", f"{times[len(times) * i // 11]}ns") for i in range(1, 11)]
    compared = unknown = 0
    for moment in moments:
        for block in vramtrace.json("peak", "--by", "block", *moment, run.path)["devices"][0]["blocks"]:
            if block["ordinal"] not in true:
                continue
            compared += block["bytes"]
            said = block["module"] or "?"
            if "<" in said or said == "?":
                unknown += block["bytes"]
            else:
                assert said.partition(".")[2] == true[block["ordinal"]], (moment, block)
    assert compared and unknown <= compared / 100, (unknown, compared)


@pytest.mark.parametrize("what", KEEPERS)
def test_keepers_are_named(recorded, what):
    run = recorded("census/keepers.py")
    assert run.status == 0, run.stderr
    assert at_failure(run.path).names()[json.loads(run.stdout)[what]] == {KEEPERS[what]}


def test_nodes_of_graphs_are_counted(recorded):
    """As many as PyTorch's own objects lead to: sums, states that go on, views, functions of the program's own, checkpoints."""
    run = recorded("census/graphs.py")
    assert run.status == 0, run.stderr
    truth, found = {int(address): nodes for address, nodes in json.loads(run.stdout).items()}, {}
    for tensor in at_failure(run.path).tensors:
        found[tensor.address] = max(found.get(tensor.address, 0), tensor.nodes)
    assert {address: found[address] for address in truth} == truth
    assert max(truth.values()) > 200 and min(truth.values()) == 0


def test_a_long_graph_that_many_lead_to(vramtrace, tmp_path):
    """A million looks at nodes: the copy of a program that ends at once is done before that waits for it no longer."""
    program = tmp_path / "chain.py"
    program.write_text(
        "import torch\n"
        "x = torch.ones(1024, device='cuda', requires_grad=True)\n"
        "kept = []\n"
        "for _ in range(4000):\n"
        "    x = x.sin()\n"
        "    kept.append(x)\n"
        "torch.empty(1 << 40, dtype=torch.uint8, device='cuda')\n"
    )
    done = vramtrace.record(tmp_path / "job.vtr", python(program), env=WITH_NAMES)
    assert done.status == 1 and "names.failed" not in info_of(vramtrace, done.path)
    census = at_failure(done.path)
    assert census.flags & WHOLE and len(census.tensors) == 4001
    assert max(tensor.nodes for tensor in census.tensors) > 1000


def test_views_have_their_own_bytes(recorded):
    """As many as PyTorch tells, of all types and numbers of dimensions; and an attribute has one holder, however it is kept."""
    run = recorded("census/views.py")
    assert run.status == 0, run.stderr
    truth, census = json.loads(run.stdout), at_failure(run.path)
    tensors = {census.name(one.object): one for one in census.tensors}
    assert {name: tensors[name].own_bytes for name in truth["own"]} == truth["own"]
    assert {name: tensors[name].holders for name in truth["holders"]} == truth["holders"]


def test_modules_train_or_evaluate(vramtrace, tmp_path):
    """As model.train() and model.eval() have left them; what is known of no module is not made up."""
    program = python("oom/causes.py", "ranked")
    run = vramtrace.record(tmp_path / "job.vtr", program, options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    modes = [{one.flags for one in census.objects.values() if one.kind == "module"} for census in censuses(run.path)]
    assert modes[-1] == {2} and {1} in modes and all(mode <= {1, 2} for mode in modes)
    others = {(one.kind, one.flags) for one in at_failure(run.path).objects.values() if one.kind != "module" and one.flags}
    assert others == {("parameter", 8)}  # an optimizer has them


UNFROZEN = """
import torch
class Part(torch.nn.Module):
    def __init__(self, is_meant):
        super().__init__()
        self.layer = torch.nn.Linear(1024, 1024)
        if is_meant is not None:
            self.requires_grad = is_meant
parts = [Part(one).to("cuda") for one in (None, True, False)]
parts[0].layer.weight.require_grad = False
parts[0].layer.bias.require_grad = True
parts[1].layer.weight.requires_grad = False
torch.empty(1 << 50, device="cuda")
"""


def test_what_was_to_be_frozen_by_an_attribute_of_another_name(vramtrace, tmp_path):
    """requires_grad of a module and require_grad of a parameter, where they are False: PyTorch knows neither."""
    (tmp_path / "parts.py").write_text(UNFROZEN)
    run = vramtrace.record(tmp_path / "job.vtr", python(tmp_path / "parts.py"), env=WITH_NAMES)
    census = at_failure(run.path)
    assert {census.name(number) for number, one in census.objects.items() if one.flags & 4} == {"parts[2]", "parts[0].layer.weight"}


TAUGHT = """
import torch
first, second, third = (torch.nn.Linear(1024, 1024).to("cuda") for _ in range(3))
third.requires_grad_(False)
groups = [{"params": [first.weight]}, {"params": first.bias}]
optimizer = torch.optim.SGD(groups, lr=0.1)
made = third(second(first(torch.randn(8, 1024, device="cuda")).detach()))
torch.empty(1 << 50, device="cuda")
"""


def test_parameters_that_are_updated_and_that_graphs_begin_with(vramtrace, tmp_path):
    """Those in an optimizer's groups; and those that the graph of `made` leads to."""
    (tmp_path / "taught.py").write_text(TAUGHT)
    run = vramtrace.record(tmp_path / "job.vtr", python(tmp_path / "taught.py"), env=WITH_NAMES)
    census = at_failure(run.path)
    assert {census.name(number) for number, one in census.objects.items() if one.flags & 8} == {"first.weight", "first.bias"}
    assert {census.name(one.object) for one in census.tensors if one.flags & 2} == {"second.weight", "second.bias"}


def info_of(vramtrace, recording):
    (process,) = vramtrace.json("info", recording)["process_list"]
    return process["info"]


def run_case(vramtrace, tmp_path, case, *arguments, enter=None, **env):
    """
    Prints the same with and without censuses, and nothing else; returns what `info` says of them. An argument that is a
    function is told the recording; `enter` is a control group.
    """
    seen = []
    for names in ("auto", "off"):
        recording = tmp_path / f"{names}.vtr"
        program = [*python("census/unharmed.py", case), *(one(recording) if callable(one) else one for one in arguments)]
        if enter:
            program = ["sh", "-c", f'echo $$ >{enter}/cgroup.procs && exec "$@"', "sh", *program]
        done = vramtrace.record(recording, program, cwd=tmp_path, env={"VRAMTRACE_NAMES": names} | env)
        assert done.status == 0, done.stderr
        seen.append((done.stdout, done.stderr))
    assert seen[0] == seen[1]
    assert not list((tmp_path / "off.vtr").glob("*.names"))
    assert info_of(vramtrace, tmp_path / "off.vtr")["names"] == "off: VRAMTRACE_NAMES=off"
    return json.loads(seen[0][0]), info_of(vramtrace, tmp_path / "auto.vtr")


@pytest.mark.parametrize(("case", "seen"), [
    ("children", {"waited": "no children", "signals": 0, "left": 0}),
    ("all_children", {"left": 0}),
    ("own_children", {"is_it": True, "status": 7, "left": 0}),
    ("many_children", {"statuses": list(range(20)), "others": 0, "left": 0}),
    ("errors", {"errno": [77, 77], "left": 0}),
    ("deathsigs", {"lives": True, "signal": 10, "kept": 300_000}),
    ("fork_handlers", {"called": 0, "left": 0}),
    ("threads", {"sum": 200 * (499500.0 + 1000), "left": 0}),
    ("subreaper", {"left": 0}),
])  # fmt: skip
def test_the_program_sees_no_copy(vramtrace, tmp_path, case, seen):
    printed, info = run_case(vramtrace, tmp_path, case)
    assert printed == seen
    assert int(info["names.censuses"]) >= 1
    assert "names.failed" not in info and "names.refused" not in info


def test_descriptors_are_not_held(vramtrace, tmp_path):
    printed, info = run_case(vramtrace, tmp_path, "descriptors")
    assert (printed["held"], printed["end"], info["names.censuses"]) == (False, "", "1")


def test_no_copy_to_be_had(vramtrace, tmp_path):
    """A process that may make none goes on as ever, and the trace says it."""
    printed, info = run_case(vramtrace, tmp_path, "forbidden")
    assert printed == {"errno": 77, "left": 0}
    assert info["names.refused"] == "1 times there was no copy, the last with errno 1"


NO_THREAD = "can't start new thread"


@pytest.fixture
def open_folder():
    """A folder that any user may enter."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield Path(path)


@pytest.fixture
def control_group():
    """control_group(controller, limit's files): a group that is limited to nothing yet; skipped where none can be made."""
    with contextlib.ExitStack() as stack:

        def make(controller, *limits):
            for parent in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup") / controller):
                group = parent / f"vramtrace-census-{os.getpid()}"
                try:
                    group.mkdir()
                except OSError:
                    continue
                stack.callback(group.rmdir)
                if any((group / limit).exists() for limit in limits):
                    return group
            pytest.skip(f"no control group with the {controller} controller can be made here")

        yield make


def test_as_many_processes_as_the_user_may_have(vramtrace, open_folder):
    if os.getuid():
        pytest.skip("only root can be a user that has no other process")
    printed, info = run_case(vramtrace, open_folder, "user_limit", lambda recording: recording)
    assert printed == {"thread": [NO_THREAD, "started"], "left": 0}
    assert info["names.censuses"] == "1" and "names.failed" not in info
    assert info["names.refused"] == (
        "2 times there was no copy, the last time because its user may have hardly any more processes"
    )


def test_as_many_processes_as_the_group_may_have(vramtrace, tmp_path, control_group):
    group = control_group("pids", "pids.max")
    (group / "pids.max").write_text("10000")
    printed, info = run_case(vramtrace, tmp_path, "tasks_limit", group, enter=group)
    assert printed == {"thread": [NO_THREAD, "started"], "left": 0}
    assert info["names.censuses"] == "1" and "names.failed" not in info
    assert info["names.refused"] == (
        "2 times there was no copy, the last time because its control group may have hardly any more processes"
    )


@pytest.mark.parametrize(("case", "spare", "key", "said"), [
    ("memory_limit", 20, "refused", "1 times there was no copy, the last time because its control group has too little memory "
     "left"),
    ("memory_limit", 240, "failed", "1 copies did not end well, the last because its control group was running out of memory"),
    ("memory_limit_held", 240, "failed", "1 copies did not end well, the last by signal 9"),
], ids=("no_room", "gives_way", "cannot_give_way"))  # fmt: skip
def test_little_memory_in_the_group(vramtrace, tmp_path, control_group, case, spare, key, said):
    """With 4 GiB in memory and little more to be had, the copy is what goes: by itself, or if it cannot by the kernel."""
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 10 << 30:
        pytest.skip("less than 10 GiB of memory are free")
    group = control_group("memory", "memory.max", "memory.limit_in_bytes")
    limit = next(group / name for name in ("memory.max", "memory.limit_in_bytes") if (group / name).exists())
    limit.write_text(str(16 << 30))
    seen = []
    for names in ("auto", "off"):
        limit.write_text(str(16 << 30))
        before = oom_kills(group)
        recording = tmp_path / f"{names}.vtr"
        program = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh",
                   *python("census/unharmed.py", case), group, str(spare << 20)]  # fmt: skip
        done = vramtrace.record(recording, program, cwd=tmp_path, env={"VRAMTRACE_NAMES": names})
        assert (done.status, json.loads(done.stdout)) == (0, {"whole": True, "kept": 1_000_000, "left": 0}), done.stderr
        seen.append((oom_kills(group) - before, done.stderr))
    assert seen == [(int(case == "memory_limit_held"), ""), (0, "")]
    assert info_of(vramtrace, tmp_path / "auto.vtr")[f"names.{key}"] == said


def oom_kills(group):
    """How many processes of a control group the kernel has ended for want of memory."""
    lines = next(group / name for name in ("memory.events", "memory.oom_control") if (group / name).exists())
    return sum(int(line.split()[1]) for line in lines.read_text().splitlines() if line.startswith("oom_kill "))


def test_class_whose_code_faults(vramtrace, tmp_path):
    """Its objects are left out, what else leads to tensors is there, and it is said why the censuses are not whole."""
    printed, info = run_case(vramtrace, tmp_path, "fault")
    assert printed == {"left": 0}
    assert "names.failed" not in info
    first, second = censuses(tmp_path / "auto.vtr")
    assert first.flags == second.flags == COLLECTOR | FAULT
    assert "fault().held.tensor" in {name for names in second.names().values() for name in names}
    (process,) = vramtrace.json("info", tmp_path / "auto.vtr")["process_list"]
    assert [(one["whole"], one["cut_by"]) for one in process["censuses"]] == [(False, "class")] * 2
    assert "2 not whole: met a class whose code faulted" in vramtrace.call("info", tmp_path / "auto.vtr").stdout


def test_copy_that_crashes(vramtrace, tmp_path):
    """No handler of the program's runs in it, no core file is left, and the trace says it."""
    printed, info = run_case(vramtrace, tmp_path, "crash")
    assert printed == {"left": 0, "cores": 0}
    assert info["names.failed"] == "1 copies did not end well, the last by signal 11"
    said = vramtrace.call("info", tmp_path / "auto.vtr").stdout
    assert "1 not whole: ended early" in said and info["names.failed"] in said


def test_copy_that_hangs(vramtrace, tmp_path):
    printed, info = run_case(vramtrace, tmp_path, "hang", VRAMTRACE_NAMES_SECONDS="2")
    assert printed == {"left": 0}
    assert info["names.failed"] == "1 copies did not end well, the last by signal 14"


def test_share_of_the_time(vramtrace, tmp_path):
    """At new highs in a row the first has a copy; the next is due when all have taken less than 1% of the time."""
    printed, info = run_case(vramtrace, tmp_path, "highs")
    assert printed == {"kept": 12, "left": 0}
    assert 1 <= int(info["names.censuses"]) <= 3


@contextlib.contextmanager
def busy_processor(number):
    """A process that computes on a processor all the time."""
    other = subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{number}])\nwhile True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def test_first_copy_of_a_short_program(vramtrace, tmp_path):
    """It gives way to nobody at first: it is done soon after the program has ended, where another has half the processor."""
    program = tmp_path / "short.py"
    program.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(24)]).cuda()\n"
        "model(torch.randn(64, 1024, device='cuda')).sum().backward()\n"
    )
    number = min(os.sched_getaffinity(0))
    with busy_processor(number):
        done = vramtrace.record(tmp_path / "job.vtr", ["taskset", "-c", number, sys.executable, program], env=WITH_NAMES)
    assert done.status == 0, done.stderr
    (device,) = vramtrace.json("report", tmp_path / "job.vtr")["devices"]
    assert "names.failed" not in info_of(vramtrace, tmp_path / "job.vtr")
    assert device["names"]["censuses"] == 1 and device["names"]["named_bytes_at_peak"] > 0


def waiting_program(vramtrace, tmp_path, env=None):
    """One that holds two tensors and waits for its input's end; its process number."""
    program = tmp_path / "waits.py"
    program.write_text(
        "import os, sys, torch\n"
        "def main():\n"
        "    cache = {'a': torch.ones(1000, device='cuda'), 'b': torch.ones(2000, device='cuda')}\n"
        "    print(os.getpid(), flush=True)\n"
        "    sys.stdin.read()\n"
        "    return cache\n"
        "main()\n"
    )
    argv = vramtrace.run_argv(tmp_path / "job.vtr", [sys.executable, program])
    return subprocess.Popen([*map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=program_environment(WITH_NAMES | (env or {})))  # fmt: skip


def test_census_that_was_asked_for(vramtrace, tmp_path):
    with waiting_program(vramtrace, tmp_path) as process:
        pid = process.stdout.readline().strip()
        said = vramtrace.json("names", pid)
        process.communicate()
    (found,) = censuses(tmp_path / "job.vtr")
    assert (found.why, said["census"], said["tensors"]) == (3, str(found.path), 2)
    assert said["recording"] == str(tmp_path / "job.vtr")
    names = {name for names in found.names().values() for name in names}
    assert names == {"main().cache['a']", "main().cache['b']"}
    assert process.returncode == 0


def test_census_that_cannot_be_had(vramtrace, tmp_path):
    with waiting_program(vramtrace, tmp_path, {"VRAMTRACE_NAMES": "off"}) as process:
        pid = process.stdout.readline().strip()
        asked = vramtrace.call("names", pid)
        process.communicate()
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "could not look; 'vramtrace info' says at 'names' why" in asked.stderr
    other = vramtrace.call("names", os.getpid())
    assert other.returncode == 2 and "writes a recording; start it with 'vramtrace run'" in other.stderr


def test_only_when_memory_runs_out(vramtrace, tmp_path):
    done = vramtrace.record(tmp_path / "job.vtr", python("census/unharmed.py", "highs"), env={"VRAMTRACE_NAMES": "oom"})
    assert done.status == 0
    assert not list((tmp_path / "job.vtr").glob("*.names"))
    assert info_of(vramtrace, tmp_path / "job.vtr")["names"] == "on: only when memory has run out"


def test_little_memory_for_a_copy(vramtrace, tmp_path):
    """Not all objects are looked at then, and that is said; what was found first is there."""
    run = vramtrace.record(tmp_path / "job.vtr", python("census/of_models.py", "plain"),
                           env=WITH_NAMES | {"VRAMTRACE_NAMES_MEMORY": "1MiB"})  # fmt: skip
    assert run.status == 0, run.stderr
    (found,) = (one for one in censuses(tmp_path / "job.vtr") if one.why == 1)
    assert found.flags == 2
    assert any(name.startswith(MODEL) for names in found.names().values() for name in names)


def test_copies_of_a_killed_program_are_cut_not_wrong(vramtrace, tmp_path):
    """A census that was cut anywhere is read as far as it goes: names that are there are right."""
    run = vramtrace.record(tmp_path / "job.vtr", python("census/of_models.py", "plain"), env=WITH_NAMES)
    (whole,) = (one for one in censuses(tmp_path / "job.vtr") if one.why == 1)
    data, known = whole.path.read_bytes(), whole.names()
    assert run.status == 0
    for cut in range(len(data) - 1, 0, -len(data) // 40):
        whole.path.write_bytes(data[:cut])
        done = vramtrace.call("info", tmp_path / "job.vtr")
        assert done.returncode == 0, done.stderr
        try:
            left = Census(whole.path)
        except Refused:
            assert cut < 300  # not even its first words
            continue
        assert all(names <= known[address] for address, names in left.names().items())
