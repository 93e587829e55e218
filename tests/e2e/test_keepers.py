# SPDX-License-Identifier: MIT
"""Seventeen ways to keep memory, planted: each is named in `oom` and `leaks`, by a census; nobody is accused of a healthy job.

Their first screens are in screens/keepers/, as they are printed (UPDATE_SCREENS=1 writes them anew).
"""

import pytest

from harness import WITH_NAMES, python
from screens import as_golden

# way: verdict; root, name and kind of who keeps it; what would let go
KEEPERS = {
    "in_list": ("leak", "local", "trainer.history", "list", "trainer.history.clear()"),
    "in_dict": ("leak", "local", "trainer.table", "dict", "del trainer.table[key] after its last use, or limit its size"),
    "in_set": ("leak", "local", "trainer.group", "set", "trainer.group.clear() or a bound"),
    "in_deque": ("leak", "local", "trainer.queue", "deque", "trainer.queue.clear() or a smaller maxlen"),
    "in_array": ("leak", "local", "trainer.slots", "object", None),
    "in_closure": ("leak", "closure", "captured", "list", None),
    "in_default": ("leak", "default", "kept", "list", None),
    "in_class_attribute": ("leak", "class", "Trainer.seen", "list", "Trainer.seen.clear()"),
    "in_global": ("leak", "global", "everything", "list", "everything.clear()"),
    "in_lru_cache": ("leak", "global", "noise", "object", "noise.cache_clear() or a maxsize"),
    "in_hook": ("leak", "local", "outputs", "dict", "del outputs[key] after its last use, or limit its size"),
    "in_ctx": ("leak", "global", "results", "list", "results.append(x.detach()) in place of x"),
    "in_generator": ("leak", "generator", "mine", "list", None),
    "in_exception": ("exception", "global", "errors", "list", "errors.clear(), or str(error) in it, not the error"),
    "in_last_exc": ("exception", "exception", "sys.last_exc", "exception", "del sys.last_exc"),
    "in_thread_local": ("leak", "thread", "store.kept", "list", None),
    "in_cycle": ("cycle", "cycle", "in a reference cycle (Node)", "object",
                 "gc.collect(), or a weakref for one of the references"),
}  # fmt: skip


# One tensor that goes on with the graphs of all steps: whose name it has, and what would let go of them.
GRAPHS = {
    "in_sum": ("total", "x.detach(), or x.item(), in total in place of x"),
    "in_state": ("agent.state", "x.detach() in agent.state in place of x"),
    "in_average": ("center.value", "x.detach() in center.value in place of x"),
}


# What hooks keep: the nearest keeper, and what would let go of it.
HOOKS = {
    "closure": ("kept", "on the handle from layers.0.register_forward_hook()"),
    "method": ("layers.*._forward_pre_hooks[*].__self__.seen", "on the handle from layers.0.register_forward_pre_hook()"),
    "partial": ("layers.*._forward_hooks[*].args[*]", "on the handle from layers.0.register_forward_hook()"),
    "backward": ("kept", "on the handle from registering the hook of layers.1"),
    "weight": ("kept", "on the handle from registering the hook of layers.0.weight"),
    "shared": ("kept", "on the handle from layers.0.register_forward_hook()"),
    "each_layer": ("kept", "on each handle from layers.*.register_forward_hook()"),
    "several": ("kept", "on each handle from layers.*.register_forward_pre_hook()"),
    "global_list": ("everything", None),
}


def removal(handle):
    if handle is None:
        return "everything.clear()"
    return f"handle.remove() {handle}" + (", and on other hooks that hold the same tensors" if " the handle" in handle else "")


@pytest.mark.parametrize("way", HOOKS)
def test_hook_that_alone_keeps_is_to_be_removed(vramtrace, tmp_path, way):
    command = python("oom/hook_keepers.py", way)
    recording = vramtrace.record(tmp_path / "job.vtr", command, gpu="a10", options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    assert recording.status == 1 and "OutOfMemoryError" in recording.stderr
    name, let_go = HOOKS[way][0], removal(HOOKS[way][1])
    finding = vramtrace.json("oom", recording.path)["findings"][0]
    assert (finding["verdict"], finding["keepers"][0]["name"], finding.get("let_go_by")) == ("leak", name, let_go)
    (growth,) = vramtrace.json("leaks", recording.path)["growth"]
    assert growth["causes"][0].get("let_go_by") == let_go
    pages = {command: vramtrace.call(command, recording.path).stdout for command in ("oom", "leaks")}
    assert f"next: {let_go}" in " ".join(pages["oom"].split())
    assert f"let go by {let_go}" in " ".join(pages["leaks"].split())


@pytest.mark.parametrize("way", GRAPHS)
def test_what_goes_on_with_all_graphs_is_named(vramtrace, tmp_path, way):
    """By the nodes of autograd that it leads to, which other tensors with a graph, the latest outputs among them, do not."""
    command = python("oom/graph_keepers.py", way)
    recording = vramtrace.record(tmp_path / "job.vtr", command, gpu="a10", options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    assert recording.status == 1 and "OutOfMemoryError" in recording.stderr
    finding = vramtrace.json("oom", recording.path)["findings"][0]
    assert (finding["verdict"], finding["certainty"]) == ("graph_retention", "proven")
    assert (finding["name"], finding["let_go_by"]) == GRAPHS[way]


@pytest.fixture(scope="module", params=KEEPERS)
def kept(request, vramtrace, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "job.vtr"
    command = python("oom/keepers.py", request.param)
    recording = vramtrace.record(path, command, gpu="a10", options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    assert recording.status == 1 and "OutOfMemoryError" in recording.stderr
    return request.param, path


def is_told(told, keeper, let_go):
    said = [(one["root"], one["name"], one["kind"]) for one in told["keepers"]]
    assert keeper in said
    assert told.get("let_go_by") == let_go


def test_keeper_is_named(vramtrace, kept):
    way, path = kept
    verdict, root, name, kind, let_go = KEEPERS[way]
    (finding,) = vramtrace.json("oom", path)["findings"]
    assert finding["verdict"] == verdict
    is_told(finding, (root, name, kind), let_go)
    (growth,) = vramtrace.json("leaks", path)["growth"]
    is_told(growth["causes"][0], (root, name, kind), let_go)


@pytest.mark.parametrize("command", ["oom", "leaks"])
def test_first_screen(vramtrace, kept, command):
    way, path = kept
    done = vramtrace.call(command, path)
    assert done.stderr == ""
    as_golden(f"keepers/{way}.{command}", "\n".join(done.stdout.splitlines()[:24]) + "\n")


@pytest.mark.parametrize("kind", ["evaluation", "masks", "loader", "average", "checkpoints"])
def test_nobody_is_accused(vramtrace, tmp_path, kind):
    """Containers that have all they will ever have are no keepers of a leak, though a census knows them."""
    recording = vramtrace.record(tmp_path / "job.vtr", python("leaks/healthy.py", kind, "40"), env=WITH_NAMES)
    assert recording.status == 0, recording.stderr
    leaks = vramtrace.json("leaks", recording.path)
    assert leaks["findings"] == [] and "kept by" not in vramtrace.call("leaks", recording.path).stdout
    assert vramtrace.json("report", recording.path)["devices"][0]["names"]["censuses"] > 0
