# SPDX-License-Identifier: MIT
"""The simulated GPU's value shadow: small values that programs decide by are true, and nothing else changes.

jobs/values/ has the programs. Each runs on the simulated GPU; the host, PyTorch's own counters and the same program
with `--simulate-values off` are what it is compared with.
"""

import functools
import itertools
import json
import subprocess
import sys

import pytest

from harness import JOBS, LIMIT_S, program_environment, python

OFF = ("--simulate-values", "off")


@pytest.fixture(scope="module")
def printed(vramtrace):
    """printed(job, *arguments): the JSON object that a job of jobs/values prints on a simulated GPU."""

    @functools.cache
    def run(job, *arguments, options=(), env=()):
        command = [vramtrace.program, "run", "-q", "--no-record", "--simulate", "h100", *options]
        done = subprocess.run(
            [*command, "--", *python(f"values/{job}", *arguments)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
            env=program_environment(dict(env)),
        )
        assert done.returncode == 0, done.stderr
        assert "<simgpu values>" not in done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


# ---- values ----

OPERATORS = [
    "arithmetic",
    "bits",
    "comparisons",
    "isin of many",
    "reductions",
    "scans",
    "conversions",
    "factories",
    "joins",
    "views",
    "where",
    "nonzero",
    "index by mask",
    "index by numbers",
    "masked floats",
    "assignment",
    "unique",
    "counts",
    "weighted bincount",
    "histc",
    "repeat_interleave",
    "sort",
    "search",
    "equal",
    "ragged",
    "coalesce",
    "gradient through a mask",
    "numbers",
    "numbers overwritten",
    "lists of numbers",
    "gradient of a number",
    "forward gradient of a number",
    "many dimensions",
]


def test_every_operator_case_is_listed(printed):
    assert sorted(printed("operators.py")) == sorted(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_equals_host(printed, name):
    """Results are the host's, and none of them is said to be a kernel's."""
    case = printed("operators.py")[name]
    assert case["device"] == case["host"]
    assert case["reads"] == []


READS = {
    "written by the host": [],
    "a float from the host": [],
    "cleared": [],
    "computed from what is known": [],
    "copied within the device": [],
    "a size found in what is known": [],
    "a loss": [4],
    "a tensor that a loss was added to": [4],
    "the best of logits": [32],
    "computed from those": [8],
    "a comparison of floats": [1],
    "a size found in floats": [4],
    "a gap between what is known": [16],
    "what is known beside a gap": [],
    "overwritten by floats": [3],
    "too large to be carried": [2],
    "more than a decision": [],
    "random": [16],
    "a random number": [4],
    "computed from a known number": [],
    "computed from a loss and a known number": [4],
    "a number that a loss was added to": [4],
    "numbers that losses were added to": [4],
    "a number that a graph adds to": [4],
}


@pytest.mark.parametrize("name", READS)
def test_reads_of_computed_values_are_told(printed, name):
    assert printed("decisions.py")[name] == READS[name]


def test_values_off(printed):
    """Without the shadow what a kernel computes is never known."""
    cases = printed("decisions.py", options=OFF)
    assert cases["written by the host"] == []
    assert cases["computed from what is known"] == [1]
    assert cases["a size found in what is known"] == [4]


def test_step_counters_are_kept(printed):
    """On the device, where torch.set_default_device("cuda"), capturable=True and fused=True put them."""
    cases = printed("optimizers.py")
    assert {name.split()[0] for name in cases} >= {"AdamW", "Adam", "NAdam", "RAdam", "ASGD"}
    for name, case in cases.items():
        counted, _ = case.get("cpu", case["cuda"])
        assert case["cuda"] == [counted, []], name
        assert counted[:2] == [[3], [4]], name


def test_scales_and_rates_are_kept(printed):
    """A gradient scale that grows, is set, saved, and halves at an infinite gradient; learning rates as tensors."""
    cases = printed("scales.py")
    assert cases["grows"] == [[[8, 8, 16, 16], 16, 2], []]
    assert cases["is set"] == [2, []]
    for name in ("halves", "halves fused"):
        assert cases[name] == [[[4, 2, 2, 1], 2], []], name
    for name in ("exponential", "lambda", "one cycle"):
        (rates, reads), (expected, _) = cases[name]
        assert (rates, reads) == (expected, []), name


# ---- the company it keeps ----

COMPANY = {
    "dispatch_modes": [2, ["aten.arange.default", "aten.gt.Scalar", "aten.nonzero.default"], True],
    "function_mode": [["ones", "mul", "sum"], False],
    "device_context": [10, True],
    "no_grad_and_inference": [10, [1, 2, 3, 4, 5]],
    "fake_tensors": [[[5, 5], [5]], [0, 1, 2]],
    "checkpoints": [[10, 3], [10, 3]],
    "flop_counter": 128,
    "functional_transforms": [[5, 17], [3]],
    "scripts": [6, [1, 3, 5, 7]],
    "graph_tracing": [["x_1", "aten.arange.default", "aten.add.Tensor", "output"], [0, 2, 4]],
    "nested_tensors": [[0, 2, 5], [5, 4], [[2, 4], [3, 4]]],
    "sparse_gradients": [3, 3],
    "graph_capture": [[5], [0, 1, 2, 3, 4]],
    "own_operators": [[2, 3, 4], [5]],
    "random_numbers": [True, True, [0, 1, 2, 3, 4]],
    "other_threads": [[0, 0, 0, 0, 0]],
    "what_is_left_behind": [1, []],
}


@pytest.mark.parametrize("name", COMPANY)
def test_beside_other_modes(printed, name):
    assert printed("company.py")[name] == COMPANY[name]


def test_errors_are_the_programs_own(printed):
    *errors, nr_ooms = printed("company.py")["errors"]
    assert [name for name, _ in errors] == ["RuntimeError", "RuntimeError", "IndexError"]
    assert [message.split()[:2] for _, message in errors] == [["The", "size"], ["shape", "'[7]'"], ["The", "shape"]]
    assert nr_ooms == 1


def test_workers_have_none(printed):
    assert printed("workers.py") == {"workers": [[0, 0], [0, 0]], "parent": 1}


@pytest.mark.parametrize(
    "backend, when",
    [
        ("aot_eager", "early"),
        pytest.param("aot_eager", "late", marks=pytest.mark.slow),
        pytest.param("inductor", "early", marks=pytest.mark.slow),
        pytest.param("inductor", "late", marks=pytest.mark.slow),
    ],
)
def test_compiled_as_without(printed, tmp_path, backend, when):
    """torch.compile compiles as much, and its code allocates as much, as with no shadow: cold and with warm caches."""

    def run(folder, options=()):
        env = (("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / folder)), ("RUN", f"{folder}{next(number)}"))
        return printed("compiled.py", backend, when, options=options, env=env)

    number = itertools.count()
    for _ in range(2 if backend == "inductor" else 1):
        shadowed, plain = run("auto"), run("off", OFF)
        assert (shadowed.pop("before"), plain.pop("before")) == (6, 0)
        assert shadowed["counters"]["stats"]["unique_graphs"] == 1
        assert shadowed == plain


# ---- nothing changes ----


def comparable(events):
    """Kind, size, shape, type and stack of each event but samples, for which there is time or is not."""
    return [
        (event["kind"], event.get("size"), str(event.get("shape")), event.get("dtype"), stack_of(event))
        for event in events
        if event["kind"] not in ("memory_info", "process_info")
    ]


def stack_of(event):
    return tuple((frame["file"], frame["line"], frame["function"]) for frame in event["python"] or ())


@pytest.mark.parametrize(
    "job",
    [
        "resnet50.py",  # the backward of a residual block adds gradients in place: not under any dispatch mode
        pytest.param("mlp.py", marks=pytest.mark.slow),
        pytest.param("llama7b.py", marks=pytest.mark.slow),
    ],
)
def test_events_are_those_without(vramtrace, recorded, record, job):
    """Every allocation and free, in its order, with its stack."""
    shadowed, plain = recorded(job), record(job, options=OFF)
    assert shadowed.status == plain.status == 0, shadowed.stderr + plain.stderr
    assert comparable(vramtrace.events(shadowed.path)) == comparable(vramtrace.events(plain.path))


@pytest.mark.slow
def test_allocations_under_autocast_are_those_without(vramtrace, recorded, record):
    """An autocast region lets go of its casts in the order of their addresses, and so the blocks that are handed out
    next are not the same in every run: what is asked for is."""

    def asked_for(done):
        events = [event for event in vramtrace.events(done.path) if event["kind"] == "tensor_alloc"]
        return [(str(event["shape"]), event["dtype"], stack_of(event)) for event in events]

    shadowed, plain = recorded("gpt.py"), record("gpt.py", options=OFF)
    assert asked_for(shadowed) == asked_for(plain)
    assert shadowed.ledger["allocated_bytes.all.peak"] == plain.ledger["allocated_bytes.all.peak"]


# ---- models ----


def test_generation_ends(printed):
    shapes = printed("generation.py")["shapes"]
    assert len(shapes) == 10
    for way, shape in shapes.items():
        assert shape == ([2, 5] if "met at once" in way else [2, 16]), way
    assert printed("generation.py")["reads"]


@pytest.mark.slow
def test_image_tokens_are_found(printed):
    assert printed("images.py") == {"llava": [[1, 7, 200], [1, 10]], "qwen2_vl": [[1, 9, 200], [1, 12]]}


@pytest.mark.slow
def test_objects_over_nccl_alone(vramtrace):
    """Sizes of pickled objects and shapes of a pipeline's stages are computed on the device and then read."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = vramtrace.call(
        *("run", "-q", "--no-record", "--simulate", "2xh100", "--"),
        *launcher,
        JOBS / "values" / "objects.py",
        env=program_environment(),
    )
    assert done.returncode == 0, done.stderr
    ranks = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda rank: rank["rank"])
    for rank, got in enumerate(ranks):
        assert got["gathered"] == [{"rank": 0, "text": ""}, {"rank": 1, "text": "x"}]
        assert got["shared"] == [{"a": 1}, [2, 3]]
        assert got["scattered"] == [[10], [20]][rank]
        assert got["sharded"] == [[[0, 2, 4, 6], [8, 10, 12, 14]][rank], [0, 2, 4, 6, 8, 10, 12, 14]]
        assert got["count"] == [3, []]
        assert got["loss"] == [0.0, [4]]
