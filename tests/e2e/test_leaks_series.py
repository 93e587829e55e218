# SPDX-License-Identifier: MIT
"""`leaks --series`: slopes, fits and forecasts are numpy's, healthy jobs are none, logs are read as people write them."""

import itertools
import json
import resource
import subprocess

import numpy
import pytest

from harness import LIMIT_S

STEPS = numpy.arange(100, 1000, 100)
ISSUE = numpy.array([18.2, 18.5, 18.9, 19.4, 20.1, 20.9, 21.8, 22.9, 24.2]) * 1e9
CAPACITY = (24 << 30) - 500_000_000


@pytest.fixture
def growth_of(vramtrace):
    def run(steps, values, *options, status=0):
        text = "".join(f"{step},{value:.0f}\n" for step, value in zip(steps, values))
        done = vramtrace.call("leaks", "--json", "--series", "-", *options, input=text, stdin=None)
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout)

    return run


def theil_sen(steps, values):
    return numpy.median([(values[j] - values[i]) / (steps[j] - steps[i])
                         for i, j in itertools.combinations(range(len(steps)), 2)])  # fmt: skip


def first_step_at(steps, values, degree, limit):
    polynomial = numpy.polynomial.Polynomial.fit(steps, values, degree)
    return min(root.real for root in (polynomial - limit).roots() if abs(root.imag) < 1e-6 and root.real > steps[-1])


def test_the_example(growth_of):
    options = ("--capacity", "24GiB", "--context", "0.5GB")
    growth = growth_of(STEPS, ISSUE, *options)["growth"]
    assert growth["bytes"] == 6e9
    assert numpy.allclose(growth["parts_bytes_per_step"], [3e6, 4e6, 5e6, 7e6, 8e6, 9e6, 11e6, 13e6])
    assert growth["shape"] == "accelerating"
    assert growth["believed"] == "quadratic"
    assert numpy.isclose(growth["bytes_per_step"], theil_sen(STEPS, ISSUE))
    for name, degree in (("linear", 1), ("quadratic", 2)):
        fit = growth[name]
        assert numpy.isclose(fit["limit_step"], first_step_at(STEPS, ISSUE, degree, CAPACITY), rtol=1e-6)
        assert fit["limit_step_low"] < fit["limit_step"] < fit["limit_step_high"]
    assert 975 < growth["quadratic"]["limit_step"] < 985
    assert 1130 < growth["linear"]["limit_step"] < 1150


@pytest.mark.parametrize("seed", range(20))
def test_random_series(growth_of, seed):
    random = numpy.random.default_rng(seed)
    nr = int(random.integers(12, 60))
    steps = numpy.cumsum(random.integers(1, 20, nr))
    bend = random.choice([0, 3e4])
    values = numpy.round(8e9 + 2e6 * steps + bend * steps**2 + random.normal(0, 3e6, nr))
    limit = 8 * values[-1]
    growth = growth_of(steps, values, "--capacity", f"{int(limit)}")["growth"]
    assert growth["warm_up_readings"] == 0
    assert numpy.isclose(growth["bytes_per_step"], theil_sen(steps, values), rtol=1e-9)
    assert growth["bytes_per_step_low"] <= growth["bytes_per_step"] <= growth["bytes_per_step_high"]
    if not growth["outliers"]:
        assert numpy.isclose(growth["linear"]["limit_step"], first_step_at(steps, values, 1, int(limit)), rtol=1e-6)
    if bend:
        assert growth["believed"] == "quadratic"


def test_intervals_hold(growth_of):
    """Of 200 linear series the slope's interval and the forecast's miss the truth about one time in twenty each."""
    random = numpy.random.default_rng(1)
    steps = numpy.arange(0, 400, 10)
    missed_slope = missed_step = 0
    for _ in range(200):
        values = 4e9 + 5e6 * steps + random.normal(0, 2e7, len(steps))
        growth = growth_of(steps, values, "--capacity", "8000000000")["growth"]
        missed_slope += not growth["bytes_per_step_low"] <= 5e6 <= growth["bytes_per_step_high"]
        missed_step += not growth["linear"]["limit_step_low"] <= 800 <= growth["linear"]["limit_step_high"]
    assert missed_slope <= 22
    assert missed_step <= 22


def test_intervals_of_random_parts(growth_of):
    """So it is where each step leaves another amount: neither bends nor breaks are seen in it much more often than that."""
    random = numpy.random.default_rng(2)
    steps = numpy.arange(80)
    missed = bent = broken = 0
    for _ in range(100):
        values = 4e9 + numpy.cumsum(random.choice([1e6, 2e6, 3e6, 8e6], len(steps)))
        growth = growth_of(steps, values)["growth"]
        missed += not growth["bytes_per_step_low"] <= 3.5e6 <= growth["bytes_per_step_high"]
        bent += growth["believed"] == "quadratic"
        broken += growth["warm_up_readings"] > 0
    assert missed <= 15 and bent <= 15 and broken <= 10


@pytest.mark.parametrize("nr", [9, 14, 20, 30])
def test_intervals_of_few_random_parts(growth_of, nr):
    """Of few readings that each leave another amount, the coming end lies within what the linear fit says, mostly."""
    random = numpy.random.default_rng(nr)
    held = told = 0
    for _ in range(100):
        values = 4e9 + numpy.cumsum(random.uniform(1e6, 2e7, 10 * nr))
        limit = values[nr - 1] + (values[nr - 1] - values[0])
        true = int(numpy.argmax(values >= limit))
        growth = growth_of(range(nr), values[:nr], "--capacity", f"{int(limit)}")["growth"]
        assert growth["shape"] != "none"
        high = growth["linear"]["limit_step_high"]
        told += high is not None and high - growth["linear"]["limit_step_low"] < 3 * nr
        held += growth["linear"]["limit_step_low"] <= true + 1 and (high is None or true - 1 <= high)
    assert held >= 90 and told >= 90


@pytest.mark.parametrize("nr", [9, 14, 20, 40, 80])
def test_coming_end_of_what_may_bend(growth_of, nr):
    """Where each step leaves another amount, and more and more, the end lies within the interval that is named first."""
    random = numpy.random.default_rng(nr)
    held = 0
    for _ in range(100):
        pace = 1 + numpy.arange(10 * nr) / nr
        values = 4e9 + 1e7 * numpy.cumsum(pace * random.uniform(0.5, 1.5, 10 * nr))
        limit = values[nr - 1] + 2 * (values[nr - 1] - values[0])
        true = int(numpy.argmax(values >= limit))
        growth = growth_of(range(nr), values[:nr], "--capacity", f"{int(limit)}")["growth"]
        held += growth["limit_step_low"] <= true + 1
        held -= growth["limit_step_high"] is not None and growth["limit_step_high"] < true - 1
    assert held >= 80


@pytest.mark.parametrize("nr", [20, 40, 80])
@pytest.mark.parametrize("curve", [lambda x: numpy.log1p(3 * x), lambda x: 1.5 * numpy.sqrt(x + 0.05)])
def test_coming_end_of_what_slows_down(growth_of, curve, nr):
    """What grows more and more slowly is no parabola, which would turn back: it may run out all the same."""
    random = numpy.random.default_rng(nr)
    held = 0
    for _ in range(50):
        values = 4e9 + 1e9 * curve(numpy.arange(12 * nr) / nr)
        limit = values[nr - 1] + (values[nr - 1] - values[0])
        true = int(numpy.argmax(values >= limit))
        noise = 1e9 * random.choice([0.01, 0.05, 0.1])
        growth = growth_of(range(nr), values[:nr] + random.normal(0, noise, nr), "--capacity", f"{int(limit)}")["growth"]
        held += growth["limit_step_low"] is not None and growth["limit_step_low"] <= true + 1
        held -= growth["limit_step_high"] is not None and growth["limit_step_high"] < true - 1
    assert held >= 43


def healthy_jobs(random):
    steps = numpy.arange(1, 201)
    noise = random.normal(0, 1e6, 200)
    base = numpy.full(200, 20e9)
    yield "constant", base
    yield "noise", base + noise
    yield "warm-up", base + noise - numpy.where(steps < 3, 12e9, 0)
    yield "slow warm-up", base + noise - 12e9 * numpy.exp(-steps / 2.0)
    yield "evaluation", base + noise + numpy.where(steps % 25 == 0, 3e9, 0)
    yield "sequence lengths", base + random.uniform(0, 4e9, 200)
    yield "saving", base + noise + numpy.where(steps % 50 == 49, 8e9, 0)
    yield "one jump", base + noise + numpy.where(steps > 90, 2e9, 0)
    yield "falling", base + noise - 5e6 * steps
    yield "periodic", base + noise + 1e9 * numpy.sin(steps / 5)


@pytest.mark.parametrize("seed", range(5))
def test_healthy_jobs(growth_of, seed):
    for name, values in healthy_jobs(numpy.random.default_rng(seed)):
        result = growth_of(range(1, 201), values, "--capacity", "40GiB", "--horizon", "1000", "--exit-code")
        assert result["findings"] == [], name


@pytest.mark.parametrize("seed", range(5))
def test_leaks_after_what_healthy_jobs_do(growth_of, seed):
    steps = numpy.arange(1, 201)
    for name, values in healthy_jobs(numpy.random.default_rng(seed)):
        result = growth_of(steps, values + 4e7 * steps, "--exit-code", status=1)
        assert result["findings"][0]["verdict"] == "leak", name
        true = 3.5e7 if name == "falling" else 4e7
        growth = result["growth"]
        assert 0.99 * growth["bytes_per_step_low"] <= true <= 1.01 * growth["bytes_per_step_high"], name


def test_onset(growth_of):
    steps = numpy.arange(1, 301)
    values = 10e9 + numpy.where(steps > 150, (steps - 150) * 2e7, 0) + numpy.random.default_rng(3).normal(0, 1e6, 300)
    growth = growth_of(steps, values)["growth"]
    assert 145 <= growth["warm_up_readings"] <= 155
    assert abs(growth["bytes_per_step"] - 2e7) < 1e5


def test_warn_growth(growth_of):
    steps = numpy.arange(0, 100, 10)
    values = 1e9 + 1e6 * steps
    growth_of(steps, values, "--warn-growth", "2%/10steps")
    growth_of(steps, values, "--warn-growth", "0.5%/10steps", status=1)
    growth_of(steps, values, "--warn-growth", "11MB/10steps")
    growth_of(steps, values, "--warn-growth", "9MB/10steps", status=1)


@pytest.mark.parametrize(
    "line",
    [
        "Step {}: Loss=2.34, Memory=18.2GB",
        "{},18200000000",
        "{} 18.2GB",
        "{{'loss': 2.3, 'global_step': {}, 'memory_allocated_gb': 18.2}}",
        "[rank0]: 2026-01-02 03:04:05 iter {} | loss 2.3 | GPU mem: 18.2 GB / 80.0 GB",
        "step={} lr=1e-4 gpu_mem (GB): 18.2 max_mem (GB): 40",
        "iteration {}: max_memory_allocated=40GB memory_allocated=18.2GB",
        "Iter: [{}] time 0.2 memory usage 18,200 MB",
    ],
)
def test_logs(vramtrace, line):
    text = "starting\n" + "".join(line.format(step) + "\nsaving checkpoint\n" for step in (100, 200, 300))
    done = vramtrace.call("leaks", "--json", "--series", "-", input=text, stdin=None)
    assert done.returncode == 0, done.stderr
    series = json.loads(done.stdout)["series"]
    assert (series["readings"], series["last_step"], series["last_bytes"]) == (3, 300, 18.2e9)


def test_long_log_in_bounded_memory(vramtrace):
    """100 MB of log in 64 MiB of address space, and its slope to a thousandth."""
    limit = 64 << 20
    process = subprocess.Popen(
        [vramtrace.program, "leaks", "--json", "--series", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    nr = 2_000_000
    for step in range(0, nr, 1000):
        process.stdin.write(b"".join(b"Step %d: Loss=2.34, allocated memory=%d B, other\n" % (s, 10**9 + 700 * s)
                                     for s in range(step, step + 1000)))  # fmt: skip
    process.stdin.write(b"x" * 10_000_000)
    result = json.loads(process.communicate(timeout=LIMIT_S)[0])
    assert process.returncode == 0
    assert result["series"]["readings"] == nr
    assert numpy.isclose(result["growth"]["bytes_per_step"], 700, rtol=1e-3)
