# SPDX-License-Identifier: MIT
"""Memory regressions fail the build: a repository with a training script and a baseline, and pull requests to it."""

import json
import re
import sys
import tomllib
import xml.etree.ElementTree as ElementTree

import pytest
from harness import TREE, program_environment
from markdown_it import MarkdownIt

SCRIPT = '''\
"""Trains a small network."""
import torch
from torch import nn

BATCH = 8192
WIDTH = 512
kept = []


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.up(x)
        y = torch.relu(y)
        return x + self.down(y)


def train(steps):
    model = nn.Sequential(*(Block() for _ in range(3))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        x = torch.randn(BATCH, WIDTH, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


train(8)
'''
BASELINE = "memory-baseline.toml"


class Repository:
    """A working tree with train.py, and what vramtrace says of recordings of it."""

    def __init__(self, vramtrace, path):
        self.vramtrace, self.path, self.nr = vramtrace, path, 0
        (path / ".git").mkdir(parents=True)
        self.write(SCRIPT)

    def write(self, script, name="train.py"):
        (self.path / name).write_text(script)

    def run(self, *arguments):
        """vramtrace ARGUMENTS in the repository."""
        return self.vramtrace.call(*arguments, cwd=self.path, env=program_environment())

    def record(self, name="train.py", gpu="h100", status=0):
        self.nr += 1
        output = self.path / f"{self.nr}.vtr"
        done = self.vramtrace.record(output, [sys.executable, name], gpu=gpu, cwd=self.path)
        assert done.status == status, done.stderr
        return output.name

    def pull_request(self, old, new, **options):
        """The recording of the script with a part replaced."""
        assert old in SCRIPT
        self.write(SCRIPT.replace(old, new))
        return self.record(**options)

    def check(self, recording, *arguments):
        return self.run("check", "--baseline", BASELINE, *arguments, recording)


def line_of(text, script=SCRIPT):
    (number,) = [number for number, line in enumerate(script.splitlines(), 1) if text in line]
    return number


@pytest.fixture(scope="module")
def repository(vramtrace, tmp_path_factory):
    repository = Repository(vramtrace, tmp_path_factory.mktemp("gate") / "repository")
    done = repository.run("baseline", "-o", BASELINE, repository.record())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    yield repository


@pytest.fixture
def unchanged(repository):
    yield repository
    repository.write(SCRIPT)


DOUBLED = ("BATCH = 8192", "BATCH = 16384")


@pytest.fixture(scope="module")
def doubled(repository):
    recording = repository.pull_request(*DOUBLED)
    repository.write(SCRIPT)
    return recording


def test_unchanged_passes_and_its_baseline_has_the_same_bytes(unchanged):
    first = (unchanged.path / BASELINE).read_bytes()
    for _ in range(2):
        recording = unchanged.record()
        done = unchanged.check(recording)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("pass: ")
        assert unchanged.run("baseline", recording).stdout.encode() == first
        same = unchanged.run("diff", "--exit-code", BASELINE, recording)
        assert (same.returncode, same.stderr) == (0, "")


def test_the_baseline_has_the_figures_of_the_report_and_nothing_of_the_run(unchanged):
    text = (unchanged.path / BASELINE).read_text()
    report = unchanged.vramtrace.json("report", unchanged.path / "1.vtr")
    (process,), (device,) = report["process_list"], report["devices"]
    read = tomllib.loads(text)
    assert read["schema"] == "vramtrace/baseline/1"
    assert read["simulated"] == "h100"
    (gpu,) = read["device"]
    assert gpu["bytes"]["peak"] == device["tensor"]["peak_bytes"]
    assert gpu["bytes"]["reserved"] == device["reserved"]["peak_bytes"]
    assert gpu["bytes"]["outside"] == gpu["library"]["context"] > 0
    assert gpu["bytes"]["device_used"] == gpu["bytes"]["outside"] + gpu["bytes"]["reserved"]
    assert gpu["bytes"]["live_at_end"] == device["tensor"]["live_at_end_bytes"]
    assert gpu["library"]["torch"] == device["driver"]["by_owner_at_peak"]["torch"]
    assert sum(gpu["phase"].values()) == gpu["bytes"]["peak"]
    assert 0 <= gpu["bytes"]["peak"] - sum(stack["bytes"] for stack in gpu["stack"]) < 1 << 20
    assert {stack["file"] for stack in gpu["stack"]} == {"train.py"}
    assert str(process["pid"]) not in re.findall(r"\d+", text)
    assert str(unchanged.path) not in text and process["host"] not in text
    assert "0x" not in text


def test_the_same_program_in_another_folder_has_the_same_baseline(unchanged, tmp_path):
    """As on another machine: the checkout lies elsewhere, and a recording from there is read in this one."""
    elsewhere = Repository(unchanged.vramtrace, tmp_path / "ci" / "work")
    recording = elsewhere.record()
    first = (unchanged.path / BASELINE).read_text()
    assert elsewhere.run("baseline", recording).stdout == first
    assert unchanged.run("baseline", elsewhere.path / recording).stdout == first


def test_one_percent_more_is_within_the_tolerance(unchanged):
    recording = unchanged.pull_request("BATCH = 8192", "BATCH = 8274")
    assert unchanged.check(recording, "--tolerance", "2%").returncode == 0
    assert unchanged.check(recording, "--tolerance", "100MiB").returncode == 0
    assert unchanged.check(recording).returncode == 1
    assert unchanged.check(recording, "--tolerance", "1MiB").returncode == 1


def test_a_doubled_batch_fails_and_the_line_is_named(unchanged, doubled):
    done = unchanged.check(doubled, "--tolerance", "2%")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^BROKEN +GPU 0 +peak ", done.stdout, re.MULTILINE)
    assert not re.search(r"^ *[KMGT]iB", done.stdout, re.MULTILINE), done.stdout  # a number keeps its unit
    places = re.findall(r"allocated at (\S+):(\d+) in (\S+)", done.stdout)
    assert places[0] == ("train.py", str(line_of("torch.relu(y)")), "Block.forward")
    assert all(len(line) <= 80 for line in done.stdout.partition("what grew")[2].splitlines()), done.stdout

    verdict = json.loads(unchanged.check(doubled, "--json").stdout)
    before = tomllib.loads((unchanged.path / BASELINE).read_text())["device"][0]
    (peak,) = [ruling for ruling in verdict["rulings"] if ruling["of"] == "peak"]
    assert (verdict["verdict"], peak["broken"], peak["before"]) == ("fail", True, before["bytes"]["peak"])
    report = unchanged.vramtrace.json("report", unchanged.path / doubled)
    assert peak["actual"] == report["devices"][0]["tensor"]["peak_bytes"]
    (blame,) = verdict["blame"]
    first = blame["stacks"][0]
    assert (first["before"]["shape"], first["after"]["shape"]) == ("float32 [8192, 2048]", "float32 [16384, 2048]")
    assert first["grown_bytes"] == first["after"]["bytes"] - first["before"]["bytes"]


def test_a_leak_fails(unchanged):
    recording = unchanged.pull_request("optimizer.step()", "optimizer.step()\n        kept.append(torch.zeros_like(x))")
    done = unchanged.check(recording, "--tolerance", "2%")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^BROKEN +GPU 0 +live at the end ", done.stdout, re.MULTILINE)
    leaking = SCRIPT.replace("optimizer.step()", "optimizer.step()\n        kept.append(torch.zeros_like(x))")
    assert f"allocated at train.py:{line_of('kept.append', leaking)} in train" in done.stdout


def test_growth_per_step(unchanged):
    recording = unchanged.pull_request(
        "optimizer.step()", "optimizer.step()\n        kept.append(torch.zeros(1 << 20, device='cuda'))"
    )
    report = unchanged.vramtrace.json("report", unchanged.path / recording)["devices"][0]
    assert report["steps"]["growth_bytes_per_step"] == 4 << 20
    verdict = json.loads(unchanged.run("check", "--max-growth-per-step", "4MiB", "--no-leaks", "--json", recording).stdout)
    growth, leaks = verdict["rulings"]
    (blame,) = verdict["blame"]
    (left,) = blame["stacks"]
    assert (blame["each_step"], left["after"]["bytes"]) == (True, 4 << 20)
    leaking = SCRIPT.replace("optimizer.step()", "optimizer.step()\n        kept.append(torch.zeros(1 << 20, device='cuda'))")
    line = line_of("kept.append", leaking)
    assert (left["after"]["file"], left["after"]["line"]) == ("train.py", line)
    annotation = unchanged.run("check", "--no-leaks", "--format", "github", recording).stdout
    assert f"::error file=train.py,line={line}," in annotation
    assert (growth["limit"], growth["actual"], growth["broken"]) == ("max-growth-per-step", 4 << 20, False)
    assert (leaks["limit"], leaks["actual"], leaks["broken"]) == ("no-leaks", 4 << 20, True)
    assert unchanged.run("check", "--max-growth-per-step", "3MiB", recording).returncode == 1
    assert unchanged.run("check", "--no-leaks", "--max-growth-per-step", "0B", "1.vtr").returncode == 0


def test_limits_of_categories(unchanged, doubled):
    report = unchanged.vramtrace.json("report", unchanged.path / doubled)["devices"][0]
    activation, parameter = (report["categories_at_peak"][name] for name in ("activation", "parameter"))
    most = f"activation={activation - 1}B, parameter={parameter}B"
    done = unchanged.run("check", "--max-category", most, "--json", doubled)
    rulings = json.loads(done.stdout)["rulings"]
    assert [(row["of"], row["actual"], row["broken"]) for row in rulings] == [
        ("parameter", parameter, False),
        ("activation", activation, True),
    ]
    refused = unchanged.run("check", "--max-category", "activations=1GiB", doubled)
    assert (refused.returncode, "parameter, gradient, optimizer_state, activation" in refused.stderr) == (2, True)
    assert unchanged.run("check", "--max-category", "1GiB", doubled).returncode == 2


def test_a_verdict_fits_a_screen(unchanged, doubled, tmp_path):
    """Names that are too long for a row, of options and of files, have a line of their own."""
    baseline = tmp_path / "memory-baselines-of-all-releases" / "memory-baseline-of-the-latest-release.toml"
    baseline.parent.mkdir()
    baseline.write_bytes((unchanged.path / BASELINE).read_bytes())
    limits = ("--max-category", "optimizer_state=1GiB", "--max-growth-per-step", "1MiB", "--no-oom", "--max-peak", "1TiB")
    done = unchanged.run("check", "--baseline", baseline, *limits, doubled)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and max(map(len, lines)) <= 80, done.stdout
    assert f"    by {baseline.name}" in lines
    assert "    by --max-growth-per-step" in lines
    assert "what grew at the peak of GPU 0 since the baseline" in lines


def test_diff_by_category_and_module(unchanged, doubled):
    baseline = tomllib.loads((unchanged.path / BASELINE).read_text())["device"][0]
    report = unchanged.vramtrace.json("report", unchanged.path / "1.vtr")["devices"][0]
    assert baseline["category"] == {name: size for name, size in report["categories_at_peak"].items() if size}
    assert sum(baseline["category"].values()) == baseline["bytes"]["peak"]
    (device,) = json.loads(unchanged.run("diff", "--json", BASELINE, doubled).stdout)["devices"]
    activation = {row["what"]: row for row in device["category"]}["activation"]
    assert activation["grown_bytes"] == activation["after_bytes"] - activation["before_bytes"] > 0
    modules = {row["what"] for row in device["module"]}
    assert any(name.startswith("<Block>.0") for name in modules), modules  # no census has seen their names
    assert "by module: " in unchanged.check(doubled, "--tolerance", "2%").stdout


def test_a_broken_program_is_no_memory_verdict(unchanged):
    recording = unchanged.pull_request("loss.backward()", "raise SystemExit(7)", status=7)
    done = unchanged.check(recording, "--max-peak", "1MiB", "--no-oom")
    assert done.returncode == 2
    assert done.stdout.startswith("could not tell: the program failed with exit status 7\n")
    assert "peak" not in done.stdout
    refused = unchanged.run("baseline", recording)
    assert refused.returncode == 2
    assert "exit status 7; --force" in refused.stderr
    assert unchanged.run("baseline", "--force", recording).returncode == 0


def test_unhandled_and_handled_out_of_memory(unchanged):
    huge = "torch.empty(1 << 40, device='cuda')"
    fatal = unchanged.pull_request("loss.backward()", huge, status=1)
    assert unchanged.run("check", "--no-oom", fatal).returncode == 1
    assert unchanged.run("check", "--any-oom", fatal).returncode == 1
    assert unchanged.run("check", "--max-peak", "100GiB", fatal).returncode == 2

    handled = f"try:\n            {huge}\n        except torch.OutOfMemoryError:\n            pass\n        loss.backward()"
    survived = unchanged.pull_request("loss.backward()", handled)
    assert unchanged.run("check", "--no-oom", survived).returncode == 0
    done = unchanged.run("check", "--any-oom", "--json", survived)
    assert done.returncode == 1
    (ruling,) = json.loads(done.stdout)["rulings"]
    assert (ruling["actual"], ruling["unit"]) == (8, "count")

    # It ran out of memory once, went on, and failed of something else.
    other = unchanged.pull_request("loss.backward()", handled.replace("pass", "torch.empty(1, device='cuda')") + "\n        1 / 0", status=1)
    assert unchanged.run("check", "--no-oom", other).returncode == 2


def test_moved_lines_and_renamed_files_are_matched(unchanged):
    moved = "# A comment.\n\n\n" + SCRIPT.replace("def train", "\n\ndef train")
    unchanged.write(moved, "fit.py")
    recording = unchanged.record("fit.py")
    done = unchanged.run("diff", "--exit-code", "--json", BASELINE, recording)
    diff = json.loads(done.stdout)
    (device,) = diff["devices"]
    assert (done.returncode, device["stacks"]) == (0, [])
    assert unchanged.check(recording).returncode == 0

    unchanged.write(moved.replace(*DOUBLED), "fit.py")
    grown = json.loads(unchanged.run("diff", "--json", BASELINE, unchanged.record("fit.py")).stdout)["devices"][0]
    stacks = [row for row in grown["stacks"] if row["after"] and not row["after"]["node"]]
    (relu,) = [row for row in stacks if row["after"]["line"] == line_of("torch.relu", moved)]
    assert (relu["before"]["file"], relu["after"]["file"]) == ("train.py", "fit.py")
    assert relu["before"]["line"] == line_of("torch.relu")


def test_diff_says_what_grew_by_phase_library_and_stack(unchanged, doubled):
    done = unchanged.run("diff", "--exit-code", BASELINE, doubled)
    assert done.returncode == 1
    assert re.search(r"^forward +\S+ \S+ +\S+ \S+ +\+", done.stdout, re.MULTILINE)
    assert f"train.py:{line_of('torch.relu')} in Block.forward" in done.stdout
    assert unchanged.run("diff", "--exit-code", "--tolerance", "500%", BASELINE, doubled).returncode == 0
    by_library = unchanged.run("diff", "--by", "library", "--json", BASELINE, doubled)
    (device,) = json.loads(by_library.stdout)["devices"]
    assert [row["what"] for row in device["library"]] == ["torch"]
    assert device["stacks"] is None
    # The other way round everything shrinks by as much.
    back = json.loads(unchanged.run("diff", "--json", doubled, "1.vtr").stdout)["devices"][0]
    there = json.loads(unchanged.run("diff", "--json", "1.vtr", doubled).stdout)["devices"][0]
    assert [row["grown_bytes"] for row in back["figures"]] == [-row["grown_bytes"] for row in there["figures"]]


def test_limits_from_the_checked_in_file(unchanged, tmp_path):
    file = unchanged.path / "vramtrace.toml"
    file.write_text(f'[check]\nmax-peak = "gpu0=1GiB, 100GiB"\nno-oom = true\nbaseline = "{BASELINE}"\ntolerance = "2%"\n')
    try:
        done = unchanged.run("check", "--json", "1.vtr")
        rulings = {(ruling["limit"], ruling["of"]): ruling for ruling in json.loads(done.stdout)["rulings"]}
        assert rulings["max-peak", "peak"]["allowed"] == 1 << 30
        assert rulings["max-peak", "peak"]["origin"] == "vramtrace.toml:2"
        assert rulings["baseline", "peak"]["allowed"] > rulings["baseline", "peak"]["before"]
        assert unchanged.run("check", "--max-peak", "50GiB", "1.vtr").returncode == 0  # counts before the file
        moved = tmp_path / "limits.toml"
        moved.write_text(file.read_text())
        refused = unchanged.run("check", "--limits", moved, "1.vtr")
        assert (refused.returncode, str(tmp_path / BASELINE) in refused.stderr) == (2, True)
        file.write_text("[check]\nmax-peaks = 3\n")
        refused = unchanged.run("check", "1.vtr")
        assert (refused.returncode, "line 2: unknown key 'max-peaks'" in refused.stderr) == (2, True)
        file.write_text("[check]\nmax-peak = 3\n")
        assert "line 2: 'max-peak' is a whole number" in unchanged.run("check", "1.vtr").stderr
    finally:
        file.unlink()


def test_a_baseline_of_something_else_is_refused(unchanged):
    other = unchanged.record(gpu="a100-40")
    done = unchanged.check(other)
    assert done.returncode == 2
    assert "simulated GPU: h100 there, a100-40 here" in done.stdout
    assert unchanged.check(other, "--force").returncode == 0
    # A limit that is broken all the same is told.
    assert unchanged.check(other, "--max-peak", "1MiB").returncode == 1
    text = (unchanged.path / BASELINE).read_text()
    for old, new, why in (
        ("baseline/1", "baseline/2", "version '2' of the format"),
        ('schema = "vramtrace', 'schema = "pytest', "it is no baseline"),
        ("\nblocks = ", "\nblobs = ", "unknown key 'blobs'"),
        ("\nbytes = ", "\nbytes = -", "expected 0 to"),
        ('torch = "', 'torch = "0.', "torch: 0."),
    ):
        (unchanged.path / "other.toml").write_text(text.replace(old, new))
        done = unchanged.run("check", "--baseline", "other.toml", "1.vtr")
        assert (done.returncode, why in done.stdout + done.stderr) == (2, True), (why, done.stdout, done.stderr)


def test_several_gpus_and_limits(unchanged):
    unchanged.write("import torch\nkept = [torch.empty(1 << 28, device=f'cuda:{i}') for i in (0, 1, 1)]\n", "two.py")
    recording = unchanged.record("two.py", gpu="2xh100")
    done = unchanged.run("check", "--max-peak", "1GiB", "--json", recording)
    rulings = json.loads(done.stdout)["rulings"]
    assert done.returncode == 1
    assert [(ruling["device"], ruling["broken"]) for ruling in rulings] == [(0, False), (1, True)]
    assert unchanged.run("check", "--max-peak", "1GiB,gpu1=2GiB", recording).returncode == 0
    assert unchanged.run("check", "--max-peak", "gpu0=1GiB", recording).returncode == 0
    done = unchanged.run("check", "--max-peak", "rank3=1GiB", recording)
    assert (done.returncode, "no GPU of the recording" in done.stdout) == (2, True)
    assert unchanged.check(recording).returncode == 2


def test_a_program_without_gpu_memory(unchanged):
    unchanged.write("import torch\ntorch.cuda.is_available()\ntorch.cuda.current_stream()\n", "idle.py")
    recording = unchanged.path / "idle.vtr"
    unchanged.vramtrace.record(recording, [sys.executable, "idle.py"], cwd=unchanged.path)
    done = unchanged.run("check", "--max-peak", "1GiB", recording)
    assert done.returncode == 2
    if recording.exists():
        assert "no GPU memory was allocated" in done.stdout


def test_junit_report(unchanged, doubled):
    """What Jenkins' and GitLab's schemas ask for: counts that add up, cases with names and at most one result."""
    for recording, status in ((doubled, 1), ("1.vtr", 0)):
        done = unchanged.check(recording, "--format", "junit")
        assert done.returncode == status
        suites = ElementTree.fromstring(done.stdout)
        assert suites.tag == "testsuites"
        (suite,) = suites
        cases = list(suite)
        for node in (suites, suite):
            assert int(node.attrib["tests"]) == len(cases)
            assert int(node.attrib["failures"]) == len(suite.findall("testcase/failure"))
            assert int(node.attrib["errors"]) == len(suite.findall("testcase/error"))
            assert float(node.attrib["time"]) >= 0
        assert suite.attrib["name"] == recording
        assert {case.tag for case in cases} == {"testcase"}
        assert len({(case.attrib["classname"], case.attrib["name"]) for case in cases}) == len(cases)
        assert all({result.tag for result in case} <= {"failure", "error"} and len(case) <= 1 for case in cases)
        assert all(set(result.attrib) == {"message", "type"} for case in cases for result in case)
        assert bool(suite.findall("testcase/failure")) == bool(status)
    failed = ElementTree.fromstring(unchanged.check(doubled, "--format", "junit").stdout).find(".//failure")
    assert f"train.py:{line_of('torch.relu')} in Block.forward" in failed.text


def unescaped(text):
    for code, character in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_github_annotations(unchanged, doubled):
    done = unchanged.check(doubled, "--format", "github", "--tolerance", "2%")
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    command, properties, message = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line).groups()
    assert command == "error"
    where = dict(item.split("=", 1) for item in properties.split(","))
    assert (where["file"], SCRIPT.splitlines()[int(where["line"]) - 1].strip()[:4]) == ("train.py", "y = ")
    assert "\n" in unescaped(message) and "above the" in message
    passed = unchanged.check("1.vtr", "--format", "github").stdout
    assert passed.startswith("::notice ")

    # What would end a property or a line is escaped.
    odd = unchanged.path / "od%d, a:b.py"
    odd.write_text(SCRIPT.replace(*DOUBLED))
    done = unchanged.run("check", "--max-peak", "1MiB", "--format", "github", unchanged.record(odd.name))
    properties = re.match(r"::error ([^:]*)::", done.stdout)[1]
    assert unescaped(dict(item.split("=", 1) for item in properties.split(","))["file"]) == odd.name


def test_markdown_is_a_table(unchanged, doubled):
    odd = unchanged.path / "a|b_*c*.py"
    odd.write_text(SCRIPT.replace(*DOUBLED))
    done = unchanged.check(unchanged.record(odd.name), "--format", "markdown")
    assert done.returncode == 1
    html = MarkdownIt("commonmark").enable("table").render(done.stdout)
    page = ElementTree.fromstring(f"<page>{html}</page>")
    assert page.find("h3").text.startswith("GPU memory: fail: ")
    limits, grown = page.findall("table")
    assert [cell.text for cell in limits.find("thead/tr")][1:4] == ["GPU", "what", "took"]
    assert len(limits.findall("tbody/tr")) == 3
    rows = [["".join(cell.itertext()) for cell in row] for row in grown.findall("tbody/tr")]
    assert all(len(row) == 4 for row in rows)
    assert rows[0][3].startswith("a|b_*c*.py:")


def run_check(repository, *arguments, options=()):
    """vramtrace run --check ARGUMENTS -- python train.py."""
    repository.nr += 1
    command = ["run", "--simulate", "h100", "-o", f"{repository.nr}.vtr", "--check", *options, *arguments]
    return repository.run(*command, "--", sys.executable, "train.py")


def test_run_check(unchanged):
    done = run_check(unchanged, "--baseline", BASELINE)
    assert (done.returncode, done.stdout) == (0, "")
    assert "\npass: " in done.stderr
    done = run_check(unchanged, "--max-peak", "1MiB")
    assert done.returncode == 3
    assert "\nfail: " in done.stderr
    assert run_check(unchanged, "--max-peak", "1MiB", "--check-exit-code", "17").returncode == 17
    assert run_check(unchanged, "--max-peak", "1MiB", options=["--repeat", "2", "-q"]).returncode == 3
    unchanged.write(SCRIPT.replace("loss.backward()", "raise SystemExit(7)"))
    done = run_check(unchanged, "--max-peak", "1MiB")
    assert (done.returncode, "could not tell: the program failed with exit status 7" in done.stderr) == (7, True)
    unchanged.write("pass\n")
    done = run_check(unchanged, "--max-peak", "1MiB")
    assert (done.returncode, "nothing was recorded" in done.stderr) == (125, True)
    unchanged.write("import os, torch\nx = torch.empty(1, device='cuda')\nos.kill(os.getpid(), 15)\n")
    assert run_check(unchanged, "--max-peak", "1MiB").returncode == -15


def test_a_damaged_recording(unchanged, tmp_path):
    (trace,) = (unchanged.path / "1.vtr").glob("*.vtr")
    cut = tmp_path / trace.name
    data = bytearray(trace.read_bytes())
    data[len(data) // 2] ^= 0xFF
    cut.write_bytes(data)
    assert unchanged.run("check", "--max-peak", "1TiB", cut).returncode == 2
    assert unchanged.run("check", "--max-peak", "1MiB", cut).returncode == 1  # more than that is known
    assert unchanged.run("baseline", cut).returncode == 2


@pytest.mark.parametrize(
    "limit, trace, why",
    [
        ("--no-leaks", "ranges.vtr", "there are too few steps"),
        ("--no-leaks", "sweep.vtr", "there are too few steps"),
        ("--max-category=activation=1B", "kept-ranges.vtr", "the peak was before what the recording keeps"),
    ],
)
def test_what_cannot_be_told_is_not_kept(vramtrace, limit, trace, why):
    done = vramtrace.call("check", limit, TREE / "tests" / "golden" / "v1" / trace)
    assert done.returncode == 2
    assert why in done.stdout
