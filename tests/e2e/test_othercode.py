# SPDX-License-Identifier: MIT
"""What `whatif` says other code would need is what the same job needs when it is really changed; docs/whatif.md shows it."""

import functools
import re

import pytest

from harness import JOBS as FOLDER
from harness import TREE, WITH_NAMES, python

MIB = 1 << 20
LAYERS = {"llama": "model.layers.*", "gpt2": "transformer.h.*", "convolutions": "*stages.*", "resnet": "*layer[1-4]", "perceptron": "*layers.*"}
HALF = ("--scale", "activation=0.5", "--scale", "temporary=0.5", "--scale", "input=0.5")
# An optimizer that makes nothing: what AdamW makes is of the parameters' sizes, whatever the batch is.
STEADY = ("--state", "float32")
# What is asked, of each model; and how the job is run instead.
CHANGES = {
    "half-batch": lambda m, b: (("--batch", str(b // 2)), ("--batch", str(b // 2))),
    "double-batch": lambda m, b: (("--batch", str(2 * b)), ("--batch", str(2 * b))),
    "checkpoint": lambda m, b: (("--checkpoint", LAYERS[m]), ("--checkpoint",)),
    "checkpoint-double-batch": lambda m, b: (("--checkpoint", LAYERS[m], "--batch", str(2 * b)), ("--checkpoint", "--batch", str(2 * b))),
    "checkpoint-amp": lambda m, b: (("--checkpoint", LAYERS[m]), ("--checkpoint", "--amp")),
    "without-ema": lambda m, b: (("--without", "ema"), ("--no-ema",)),
    "without-its-line": lambda m, b: (("--without", "copy.py:*"), ("--no-ema",)),
    "without-state": lambda m, b: (("--without", "optimizer_state"), ("--no-state",)),
    "without-side": lambda m, b: (("--without", "model.side"), ("--no-side",)),
    "half-activations": lambda m, b: (HALF, (*STEADY, "--batch", str(b // 2))),
    "half-state": lambda m, b: (("--scale", "optimizer_state=0.5"), ("--state", "bfloat16")),
    "bf16-state": lambda m, b: (("--dtype", "optimizer_state=bfloat16"), ("--state", "bfloat16")),
    "8bit-state": lambda m, b: (("--dtype", "optimizer_state=8bit"), ("--state", "int8")),
    "bf16": lambda m, b: (("--dtype", "*=bf16"), ("--type", "bfloat16")),
}
ALL = ("half-batch", "double-batch", "checkpoint", "without-ema", "without-state", "half-activations", "half-state", "bf16-state", "8bit-state", "bf16")
CASES = [(model, change) for model in LAYERS for change in ALL] + [
    *((model, "checkpoint-double-batch") for model in LAYERS),
    *((model, "checkpoint-amp") for model in ("llama", "gpt2", "resnet")),
    ("perceptron", "without-side"),
    ("llama", "without-its-line"),
]
BATCH = {"perceptron": 8192, "resnet": 32}


@pytest.fixture(scope="module")
def run(vramtrace, tmp_path_factory):
    """run(model, *options): a recording of the job, made once."""

    @functools.cache
    def record(model, *options):
        folder = tmp_path_factory.mktemp(model)
        more = () if "--batch" in options else ("--batch", str(BATCH.get(model, 8)))
        done = vramtrace.record(
            folder / "job.vtr", python("othercode.py", model, *more, *options), env=WITH_NAMES | {"PYTHONPATH": str(FOLDER)}
        )
        assert done.status == 0, done.stderr
        return done.path

    return record


def asked_and_run(model, change):
    return CHANGES[change](model, BATCH.get(model, 8))


@pytest.fixture(scope="module")
def figures(vramtrace, run):
    """figures(model, change): allocated and reserved, as predicted and as run."""

    def ask(model, change):
        asked, options = asked_and_run(model, change)
        base = run(model, "--named", *(("--amp",) if "--amp" in options else ()), *(STEADY if options[:2] == STEADY else ()))
        (told,) = vramtrace.json("whatif", *asked, base)["devices"]
        (seen,) = vramtrace.json("report", run(model, *options))["devices"]
        return (
            (told["peak_allocated_bytes"], seen["tensor"]["peak_bytes"]),
            (told["peak_reserved_bytes"], seen["reserved"]["peak_bytes"]),
        )

    return ask


@pytest.mark.parametrize("model, change", CASES, ids=["-".join(case) for case in CASES])
def test_a_changed_job_needs_what_was_predicted(figures, model, change):
    allocated, reserved = figures(model, change)
    assert allocated[0] == pytest.approx(allocated[1], rel=0.01, abs=0)
    assert reserved[0] == pytest.approx(reserved[1], rel=0.05, abs=64 * MIB)


def test_documented_predictions():
    """docs/whatif.md has a row for each case."""
    rows = re.findall(r"^\| `([a-z0-9]+)` \| ([a-z0-9-]+) \|", (TREE / "docs" / "whatif.md").read_text(), re.M)
    assert rows == CASES


def test_several_changes_and_settings_at_once(vramtrace, run):
    path = run("perceptron", "--named")
    (told,) = vramtrace.json(
        "whatif", "--batch", "4096", "--without", "ema", "--dtype", "optimizer_state=8bit", "--conf", "expandable_segments:True", path
    )["devices"]
    done = vramtrace.record(
        path.parent / "both.vtr",
        python("othercode.py", "perceptron", "--batch", "4096", "--no-ema", "--state", "int8"),
        env={"PYTHONPATH": str(FOLDER), "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    )
    (seen,) = vramtrace.json("report", done.path)["devices"]
    assert told["peak_allocated_bytes"] == pytest.approx(seen["tensor"]["peak_bytes"], rel=0.02)
    assert told["peak_reserved_bytes"] == pytest.approx(seen["reserved"]["peak_bytes"], rel=0.08)
    assert not told["exact"]


def test_pytorchs_own_allocator_serves_changed_requests(vramtrace, run):
    import sys

    path = run("perceptron", "--named")
    options = ("--checkpoint", "*layers.*", "--without", "ema", "--engine", "torch", "--python", sys.executable)
    (told,) = vramtrace.json("whatif", *options, path)["devices"]
    assert told["torch_peak_reserved_bytes"] == told["peak_reserved_bytes"]


@pytest.mark.parametrize("model", ["llama", "perceptron"])
def test_advice_and_whatif_say_the_same(vramtrace, run, model):
    """Of the same change: one adds up the blocks of a cycle, the other serves all requests by the allocator's model."""
    path = run(model, "--named")
    (advised,) = [one for one in vramtrace.json("advise", "--always", "--all", path)["advice"] if one["kind"] == "checkpointing"]
    (told,) = vramtrace.json("whatif", "--checkpoint", LAYERS[model], path)["devices"]
    assert advised["after_bytes"] == pytest.approx(told["peak_allocated_bytes"], rel=0.001)


def test_a_change_that_frees_nothing_changes_nothing(vramtrace, run):
    path = run("perceptron", "--named")
    (plain,) = vramtrace.json("whatif", path)["devices"]
    (told,) = vramtrace.json("whatif", "--scale", "activation=1", path)["devices"]
    assert told["peak_reserved_bytes"] == plain["peak_reserved_bytes"] and not told["exact"]


def test_what_is_changed_is_said(vramtrace, run):
    path = run("perceptron", "--named")
    told = vramtrace.json("whatif", "--without", "ema", "--dtype", "input=8bit", "--batch", "1024", path)
    changes = {one["change"]: one for one in told["changes"]}
    assert [one["change"] for one in told["changes"]] == ["batch", "dtype", "without"]
    assert changes["batch"]["batch_was"] == 8192
    # 12 layers of 2048 x 2048, and the way beside them: weights, and what a bias takes of a block.
    parameters = 12 * (2048 * 2048 + 2048) + 2048 * 4096 + 4096 + 4096 + 1
    assert changes["without"]["bytes"] == pytest.approx(4 * parameters, rel=0.001)
    text = vramtrace.call("whatif", "--batch", "1024", path).stdout
    assert "A batch had 8192 samples, 8 of the job's cycles are changed." in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    "options, told",
    [
        (("--without", "nothing.like.it"), "nothing in"),
        (("--without", "category=weights"), "there is no category 'weights'"),
        (("--without", ""), "it names nothing"),
        (("--scale", "activation"), "a factor, as activation=0.5"),
        (("--scale", "activation=half"), "'half' is no factor"),
        (("--scale", "activation=-1"), "'-1' is no factor"),
        (("--dtype", "activation=tiny"), "there is no type 'tiny'"),
        (("--batch", "0"), "a whole number"),
        (("--batch", "-4"), "a whole number"),
        (("--batch", "8192"), "or it has that size"),
        (("--checkpoint", "*nowhere*"), "no such module"),
    ],
)
def test_what_cannot_be_changed_is_said(vramtrace, run, options, told):
    done = vramtrace.call("whatif", *options, run("perceptron", "--named"))
    assert done.returncode == 2 and told in done.stderr and not done.stdout, done.stderr


def test_a_change_saves_a_job_that_ran_out_of_memory(vramtrace, run, tmp_path):
    """The request that failed is served in the prediction, as it is when the job is changed so."""
    small = ("--simulate-capacity", "4GiB")
    options = {"env": WITH_NAMES | {"PYTHONPATH": str(FOLDER)}, "options": small}
    failed = vramtrace.record(tmp_path / "failed.vtr", python("othercode.py", "gpt2", "--named"), **options)
    assert "OutOfMemoryError" in failed.stderr
    (told,) = vramtrace.json("whatif", "--checkpoint", "transformer.h.*", failed.path)["devices"]
    assert (told["oom"], told["saved_ooms"]) == (False, 1)
    fitted = vramtrace.record(tmp_path / "fitted.vtr", python("othercode.py", "gpt2", "--checkpoint"), **options)
    assert fitted.status == 0, fitted.stderr


# Code that runs out of memory on a smaller GPU: the change that is asked for, and made in the job that is run instead.
ENDS = {
    "llama-batch": ("llama", ("--batch", "32"), ("--batch", "32"), "8GiB"),
    "llama-checkpoint": ("llama", ("--checkpoint", LAYERS["llama"]), ("--checkpoint",), "4GiB"),
    "gpt2-batch": ("gpt2", ("--batch", "16"), ("--batch", "16"), "4GiB"),
    "llama-as-it-was": ("llama", (), (), "3200MiB"),  # before any census that the recording has
}


@pytest.mark.parametrize("end", ENDS)
def test_where_other_code_runs_out_is_explained_as_if_it_had(vramtrace, run, tmp_path, end):
    """By the blocks that it would have held: the same findings at the same lines as of the run that fails."""
    model, asked, options, capacity = ENDS[end]
    told = vramtrace.json("whatif", *asked, "--capacity", capacity, run(model, "--named"))
    assert told["devices"][0]["oom"] and told["devices"][0]["cut_short"]
    failed = vramtrace.record(
        tmp_path / "failed.vtr",
        python("othercode.py", model, "--named", *(() if "--batch" in options else ("--batch", "8")), *options),
        env=WITH_NAMES | {"PYTHONPATH": str(FOLDER)},
        options=("--simulate-capacity", capacity),
    )
    assert "OutOfMemoryError" in failed.stderr
    found = vramtrace.json("oom", failed.path)
    kinds = [[(one["verdict"], one["cause"], one["certainty"], one["site"]) for one in all["findings"]] for all in (told, found)]
    assert kinds[0] == kinds[1]
    assert told["findings"][0]["bytes"] == pytest.approx(found["findings"][0]["bytes"], rel=0.05)


def test_with_a_smaller_batch_the_request_that_failed_is_smaller(vramtrace, tmp_path):
    """Of nothing but a batch all is in proportion to it, the request that failed too."""
    script = tmp_path / "job.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(64, 1 << 18, device='cuda')\n"
        "batch = torch.zeros(1024, 64, device='cuda')\n"
        "first = model(batch)\n"
        "second = model(batch)\n"
    )
    failed = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "2GiB"))
    assert "Tried to allocate 1024.00 MiB" in failed.stderr
    fixed = (1 << 18) * 64 * 4 + (1 << 20)
    for batch in (512, 256):
        (told,) = vramtrace.json("whatif", "--batch", str(batch), failed.path)["devices"]
        assert told["saved_ooms"] == 1
        activations = told["peak_allocated_bytes"] - fixed - batch * 64 * 4
        assert activations == pytest.approx(2 * batch * (1 << 20), rel=0.1)
