# SPDX-License-Identifier: MIT
"""calibrate, put to the test where the truth is known: on a simulated GPU, whose model it must find again."""

import re
import sys
import tomllib

import pytest

from harness import python

MIB = 2**20
PROFILE = "2xa100-40"


class Calibration:
    """A job on a simulated GPU, the questions its libraries were asked, and the GPU file calibrate made there."""

    def __init__(self, vramtrace, folder):
        self.questions, self.path = folder / "questions.txt", folder / "found.toml"
        options = ["--questions", self.questions]
        self.job = vramtrace.record(
            folder / "job.vtr", python("library_questions.py"), gpu=PROFILE, options=options
        )
        assert self.job.status == 0, self.job.stderr
        self.done = self.calibrate(vramtrace, PROFILE, "-o", self.path, "--questions", self.questions)
        assert self.done.returncode == 0, self.done.stderr
        self.text = self.path.read_text()
        self.gpu = tomllib.loads(self.text)

    @staticmethod
    def calibrate(vramtrace, gpu, *arguments):
        return vramtrace.call(
            "run", "--simulate", gpu, "--no-record", "--", vramtrace.program, "calibrate", *arguments
        )


@pytest.fixture(scope="module")
def calibration(vramtrace, tmp_path_factory):
    return Calibration(vramtrace, tmp_path_factory.mktemp("calibrate"))


@pytest.fixture
def rerun(vramtrace, calibration, tmp_path):
    """rerun(edit): the job's peaks on the calibrated GPU, after edit() has changed the file's text."""

    def run(edit=lambda text: text):
        path = tmp_path / "edited.toml"
        path.write_text(edit(calibration.text))
        done = vramtrace.record(tmp_path / "job.vtr", python("library_questions.py"), gpu=f"2x{path}")
        assert done.status == 0, done.stderr
        return done.ledger

    return run


def set_number(name, value, text):
    changed, count = re.subn(rf"(?m)^{name} = \d+", f"{name} = {value}", text)
    assert count == 1
    return changed


def set_answer(what, value, text):
    changed, count = re.subn(rf'(what = "{what}.*"\nbytes = )\d+', rf"\g<1>{value}", text)
    assert count == 1
    return changed


def test_it_finds_the_device_and_the_model(calibration):
    assert calibration.gpu["device"] == {
        "product": "NVIDIA A100-SXM4-40GB",
        "capacity_bytes": 42298834944,
        "compute_capability": 80,
        "sms": 108,
        "smem_optin_bytes": 163 * 1024,
        "smem_sm_bytes": 164 * 1024,
        "threads_per_sm": 2048,
        "blocks_per_sm": 32,
        "l2_bytes": 40960 * 1024,
        "bus_bits": 5120,
        "clock_khz": 1410000,
        "memory_clock_khz": 1215000,
        "watts": 400,
    }
    assert calibration.gpu["memory"] == {
        "context_bytes": 420 * MIB,
        "code_bytes": 0,
        "cublas_handle_bytes": 0,
        "cudnn_handle_bytes": 0,
        "cusolver_handle_bytes": 0,
    }
    assert calibration.gpu["nccl"] == [
        {"ranks": 1, "init_bytes": 0, "first_bytes": 0},
        {"ranks": 2, "init_bytes": 0, "first_bytes": 240 * MIB},
    ]


def test_it_answers_every_question(calibration):
    """Each graph is rebuilt from its text: were it another one, simgpu would have been asked something new."""
    asked = calibration.questions.read_text().splitlines()
    assert len(set(asked)) == len(asked)
    assert [answer["question"] for answer in calibration.gpu["answer"]] == asked
    kinds = [question.split()[0] for question in asked]
    assert kinds.count("cudnn-plan") == 4
    assert {"cudnn-rnn-workspace", "cudnn-rnn-reserve", "cufft"} < set(kinds)
    lstm = [answer["bytes"] for answer in calibration.gpu["answer"] if answer["what"].startswith("LSTM")]
    state = 10 * 4 * 128 * 4 * 4
    assert lstm == [4 * state, 6 * state]


def test_questions_are_the_same_when_they_are_asked_again(vramtrace, calibration, tmp_path):
    again = tmp_path / "again.txt"
    done = vramtrace.call(
        *("run", "--simulate", PROFILE, "--no-record", "--questions", again, "--", vramtrace.program),
        *("calibrate", "-o", tmp_path / "again.toml", "--questions", calibration.questions),
    )
    assert done.returncode == 0, done.stderr
    assert set(again.read_text().splitlines()) == set(calibration.questions.read_text().splitlines())


def test_the_same_job_has_the_same_peaks(calibration, rerun):
    assert rerun() == calibration.job.ledger


def test_a_changed_number_changes_just_that(calibration, rerun):
    before = calibration.job.ledger

    def edit(text):
        text = set_number("context_bytes", 500 * MIB, text)
        text = set_number("code_bytes", 20 * MIB, text)
        text = text.replace(f"first_bytes = {240 * MIB}", f"first_bytes = {200 * MIB}")
        return set_answer("2-dimensional transform", 48 * MIB, text)

    after = rerun(edit)
    grown = {name: after[name] - before[name] for name in ("convolution", "attention", "recurrence", "transform")}
    # The transform's work area was one complex volume.
    assert grown == {"convolution": 0, "attention": 0, "recurrence": 0, "transform": 48 * MIB - 4 * 32 * 32 * 8}
    added = [now - then for now, then in zip(after["reserved"], before["reserved"])]
    used = [now - then for now, then in zip(after["used"], before["used"])]
    assert used == [(500 - 420 + 20 - 40) * MIB + more for more in added]


def test_a_plans_workspace_is_allocated(calibration, rerun):
    after = rerun(lambda text: set_answer("convolution_backward_filter", 64 * MIB, text))
    assert after["convolution"] - calibration.job.ledger["convolution"] == 64 * MIB


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        ([], "no file to write: '-o FILE' is needed"),
        (["-o", "found.toml", "more"], "unexpected argument 'more'"),
        (["-o", "my gpu.toml"], "'my gpu' is no name for a GPU"),
        (["-o", "a.toml", "--device", "2"], "there is no GPU 2 here: 2 in all"),
        (["-o", "a.toml", "--device", "4294967296"], "there is no GPU 4294967296 here: 2 in all"),
        (["-o", "a.toml", "--questions", "nothing.txt"], "cannot open 'nothing.txt'"),
        (["-o", "a.toml", "--questions", "."], "cannot read '.': Is a directory"),
        (["-o", "no/such/folder/a.toml"], "cannot write 'no/such/folder/a.toml'"),
    ],
)
def test_trouble(vramtrace, arguments, complaint):
    done = Calibration.calibrate(vramtrace, PROFILE, *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_a_file_is_replaced_only_when_asked(vramtrace, tmp_path):
    path = tmp_path / "kept.toml"
    path.write_text("edited by hand")
    done = Calibration.calibrate(vramtrace, "t4", "-o", path)
    assert done.returncode == 2 and "exists; replace it with --force" in done.stderr
    assert path.read_text() == "edited by hand"
    assert Calibration.calibrate(vramtrace, "t4", "-o", path, "--force").returncode == 0
    assert tomllib.loads(path.read_text())["device"]["product"] == "Tesla T4"


def test_what_cannot_be_answered_is_said(vramtrace, tmp_path):
    questions = tmp_path / "questions.txt"
    questions.write_text("cudnn-plan 0 15(801:15=\ncufft 9 1\nnew-library 1\ncudnn-rnn-reserve 1 2\n")
    path = tmp_path / "gpu.toml"
    done = Calibration.calibrate(vramtrace, "t4", "-o", path, "--questions", questions)
    assert done.returncode == 0
    assert "line 1: no answer: the graph is not understood" in done.stderr
    assert "line 2: no answer: the question is not understood" in done.stderr
    assert "line 3: no answer: its kind is not known" in done.stderr
    assert "0 questions answered, 4 not" in done.stderr
    assert "answer" not in tomllib.loads(path.read_text())


def test_without_a_gpu(vramtrace, tmp_path):
    done = vramtrace.call("calibrate", "-o", tmp_path / "gpu.toml", env={"PATH": "/usr/bin:/bin"})
    if "no CUDA driver" not in done.stderr and done.returncode == 0:
        pytest.skip("this machine has a GPU")
    assert done.returncode == 2
    assert not (tmp_path / "gpu.toml").exists()


@pytest.mark.gpu
def test_on_a_real_gpu(vramtrace, calibration, tmp_path):
    """The real cuDNN understands every graph that a simulated program has asked about."""
    path = tmp_path / "real.toml"
    done = vramtrace.call(
        *("calibrate", "-o", path, "--questions", calibration.questions, "--venv", sys.prefix)
    )
    assert done.returncode == 0, done.stderr
    assert ", 0 not" in done.stderr
    gpu = tomllib.loads(path.read_text())
    assert gpu["memory"]["context_bytes"] > 50 * MIB
    assert gpu["device"]["capacity_bytes"] > gpu["memory"]["context_bytes"]
