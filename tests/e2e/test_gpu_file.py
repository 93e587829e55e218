# SPDX-License-Identifier: MIT
"""`run --simulate FILE.toml`: a GPU described by a file, and what is said about a file that is none."""

import glob
import json
import os
import subprocess
import sys
import tempfile

import pytest

from harness import program_environment

MIB = 2**20

WHOLE = """
# an imaginary GPU
name = "mine"
base = "a100-40"

[device]
product = "Mine 12GB"
capacity_bytes = 12884901888
compute_capability = 89
sms = 40

[memory]
context_bytes = 209715200
code_bytes = 10485760

[[nccl]]
ranks = 2
init_bytes = 2097152
first_bytes = 31457280
"""

LOOK = """
    import json, torch, torch.cuda.nccl as nccl
    devices = range(torch.cuda.device_count())
    tensors = [torch.ones(2**20, device=f"cuda:{device}") for device in devices]
    free = [torch.cuda.mem_get_info(device)[0] for device in devices]
    if len(devices) > 1:
        nccl.all_reduce(tensors)
    properties = torch.cuda.get_device_properties(0)
    print(json.dumps({
        "count": len(devices), "name": properties.name, "total": torch.cuda.mem_get_info()[1],
        "capability": list(torch.cuda.get_device_capability()), "sms": properties.multi_processor_count,
        "context": torch.cuda.mem_get_info()[1] - free[0] - torch.cuda.memory_reserved(),
        "nccl": free[0] - torch.cuda.mem_get_info()[0]}))
"""


@pytest.fixture
def gpu_file(tmp_path):
    """gpu_file(text, name): the path of a GPU file."""

    def write(text, name="gpu.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def look(vramtrace, tmp_path):
    """look(gpu, ...): run LOOK on simulated GPUs, recorded."""

    def run(gpu, **options):
        program = tmp_path / "look.py"
        program.write_text("\n".join(line[4:] for line in LOOK.splitlines()))
        done = vramtrace.record(tmp_path / "job.vtr", [sys.executable, program], gpu=gpu, **options)
        assert done.status == 0, done.stderr
        return done

    return run


def model_files():
    return glob.glob(os.path.join(tempfile.gettempdir(), "vramtrace-model-*"))


def test_the_file_describes_the_gpu(vramtrace, gpu_file, look):
    done = look(f"2x{gpu_file(WHOLE)}")
    assert done.ledger == {
        "count": 2,
        "name": "Mine 12GB",
        "total": 12 * 1024 * MIB,
        "capability": [8, 9],
        "sms": 40,
        "context": 210 * MIB,
        "nccl": 32 * MIB,
    }
    assert "simulated GPU mine" in vramtrace.call("report", done.path).stdout
    for device in vramtrace.json("report", done.path)["devices"]:
        assert device["modelled"] == {"context": 200 * MIB, "code": 10 * MIB, "nccl": 32 * MIB}
        assert device["driver"]["by_owner_at_peak"]["nccl"] == 32 * MIB
        assert device["residual"]["at_driver_peak"]["context"] == 200 * MIB
        assert device["residual"]["at_driver_peak"]["code"] == 10 * MIB


def test_the_base_holds_where_file_and_options_are_silent(gpu_file, look):
    done = look(gpu_file('name = "other"\nbase = "a100-40"\n'), options=["--simulate-capacity", "3GiB"])
    assert done.ledger["name"] == "NVIDIA A100-SXM4-40GB"
    assert done.ledger["context"] == 420 * MIB
    assert done.ledger["total"] == 3 * 1024 * MIB


@pytest.mark.parametrize("gpu, count", [("2x4090.toml", "1"), ("3x2x4090.toml", "3"), ("3x./2x4090.toml", "3")])
def test_a_file_may_look_like_a_count(vramtrace, gpu_file, tmp_path, gpu, count):
    gpu_file(WHOLE, "2x4090.toml")
    command = ["run", "--simulate", gpu, "--no-record", "--", "sh", "-c", "echo $SIMGPU_DEVICES"]
    assert vramtrace.call(*command, cwd=tmp_path).stdout.strip() == count


@pytest.mark.parametrize("options", [[], ["--exec"]])
def test_nothing_is_left_behind(vramtrace, gpu_file, options):
    """What --exec leaves, because nobody is there to remove it, the next run removes; children still find it."""
    code = """
import json, os, subprocess, sys
path = os.environ["SIMGPU_MODEL"]
child = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.mem_get_info()[1])"], stdout=-1)
print(json.dumps([path, int(child.stdout)]))
"""
    base = [vramtrace.program, "run", "-q", "--no-record", "--simulate", gpu_file(WHOLE)]
    done = subprocess.run(
        [*base, *options, "--", sys.executable, "-c", code], capture_output=True, text=True, env=program_environment()
    )
    assert done.returncode == 0, done.stderr
    path, total = json.loads(done.stdout)
    assert total == 12 * 1024 * MIB
    assert path not in model_files() or options
    assert subprocess.run([*base, "--", "true"], env=program_environment()).returncode == 0
    assert path not in model_files()


@pytest.mark.parametrize(
    "text, complaint",
    [
        (WHOLE + "[disk]\n", "line 20: unknown key 'disk'; the known ones are name, base, [device]"),
        (WHOLE.replace("sms", "smss"), "line 10: unknown key 'smss' in [device]; the known ones are product,"),
        (WHOLE.replace("ranks", "rank"), "line 17: unknown key 'rank' in [[nccl]]; the known ones are ranks,"),
        (WHOLE.replace("= 40", '= "40"'), "line 10: 'sms' is a string, expected a whole number"),
        (WHOLE.replace("= 40", "= 0"), "line 10: 'sms' is 0, expected 1 to 4096"),
        (WHOLE.replace("= 209715200", "= -1"), "line 13: 'context_bytes' is -1, expected 0 to"),
        (WHOLE.replace("[device]", "[device"), "line 6: "),
        (WHOLE.replace("a100-40", "a100-41"), "'base' is 'a100-41', expected one of v100-16,"),
        (WHOLE.replace('"mine"', '"my gpu"'), "'name' is needed: letters, digits, '.', '_' and '-'"),
        (WHOLE + '[[answer]]\nquestion = "x"\n', "line 20: [[answer]] needs 'question', a kind"),
        (WHOLE + '[[answer]]\nquestion = "cufft 1"\nbytes = 1\n' * 2, "line 23: a second [[answer]] to 'cufft 1'"),
        (WHOLE + "[[nccl]]\nranks = 3\n" * 2, "line 22: a second [[nccl]] with 'ranks' 3"),
        (WHOLE.replace("= 209715200", "= 2e8"), "line 13: 'context_bytes' is a floating-point number, expected"),
        ("", "'name' is needed"),
        (None, "No such file or directory"),
    ],
)
def test_a_wrong_file_is_refused(vramtrace, gpu_file, tmp_path, text, complaint):
    path = tmp_path / "none.toml" if text is None else gpu_file(text)
    done = vramtrace.call("run", "--simulate", path, "--no-record", "--", "true")
    assert done.returncode == 125
    assert f"cannot use GPU file '{path}': {complaint}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("count", ["0", "65"])
def test_the_count_is_checked(vramtrace, gpu_file, count):
    done = vramtrace.call("run", "--simulate", f"{count}x{gpu_file(WHOLE)}", "--no-record", "--", "true")
    assert done.returncode == 125
    assert "1 to 64 GPUs" in done.stderr


@pytest.mark.parametrize(
    "options, complaint",
    [
        (["--simulate", "t4", "--questions", "no/such/folder/q"], "cannot write 'no/such/folder/q': No such file"),
        (["--questions", "q"], "'--questions' needs '--simulate'"),
    ],
)
def test_questions_need_a_file_and_a_simulation(vramtrace, options, complaint):
    done = vramtrace.call("run", *options, "--", "true")
    assert done.returncode == 125
    assert complaint in done.stderr
