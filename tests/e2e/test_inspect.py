# SPDX-License-Identifier: MIT
"""`info`, `dump` and `verify` of a recording that is whole."""

import json
import os
import signal

from harness import python, trace_files

KINDS = {"tensor_alloc", "tensor_free", "driver_alloc", "driver_free", "memory_info", "object_new", "object_gone",
         "process_info", "pool_info", "range_push", "range_pop"}


def dumped(vramtrace, path):
    done = vramtrace.call("dump", "--json", "-v", path)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_info(vramtrace, recorded):
    path = recorded("ending.py", "return").path
    info = vramtrace.json("info", path)
    (process,) = info["process_list"]
    (device,) = process["devices"]
    assert info["schema"] == "vramtrace/info/1"
    assert info["recording"]["complete"] and info["recording"]["lost_events"] == 0
    assert info["recording"]["bytes"] == sum(trace.stat().st_size for trace in trace_files(path))
    assert (process["end"], process["exit_status"], process["signal"]) == ("exit", 0, None)
    assert process["info"]["script"] == "ending.py"
    assert process["info"]["torch"].startswith("2.")
    assert process["info"]["stacks"] == "python"
    assert process["simulated"] and process["info"]["simulated"] == "h100"
    assert process["storage"] in ("shared", "sealed", "beside", "temporary", "anonymous")
    assert device["name"] == "NVIDIA H100 80GB HBM3" and device["capacity_bytes"] > 79 << 30
    text = vramtrace.call("info", path).stdout
    for words in ("ending.py", "exit 0", "NVIDIA H100", "79.2 GiB", str(process["pid"])):
        assert words in text
    assert str(device["capacity_bytes"]) in vramtrace.call("info", "--raw", path).stdout


SET_INSIDE = """
import os
os.environ["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:64"
os.environ.pop("PYTORCH_CUDA_ALLOC_CONF")
import torch
torch.cuda.is_available()
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
torch.empty(1 << 20, device="cuda")
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:False"
assert torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"]
"""


def test_info_of_settings_made_inside(vramtrace, record, tmp_path):
    """The allocator's settings are those when the device is first used, as PyTorch has them."""
    script = tmp_path / "job.py"
    script.write_text(SET_INSIDE)
    done = record(script, env={"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:32"})
    assert done.status == 0, done.stderr
    (process,) = vramtrace.json("info", done.path)["process_list"]
    assert process["info"]["allocator_conf"] == "expandable_segments:True"


def test_info_of_a_signal(vramtrace, record):
    (process,) = vramtrace.json("info", record("ending.py", "abort").path)["process_list"]
    assert (process["end"], process["exit_status"], process["signal"]) == ("signal", None, signal.SIGABRT)


def test_dump(vramtrace, recorded):
    path = recorded("ending.py", "return").path
    events = dumped(vramtrace, path)
    assert [event["ordinal"] for event in events] == list(range(len(events)))
    assert {event["kind"] for event in events} <= KINDS
    tensors = [event for event in events if event["kind"] == "tensor_alloc"]
    assert len(tensors) == 10
    for event in tensors:
        assert event["size"] == 4 << 20
        assert (event["shape"], event["dtype"]) == ([1 << 20], "float32")
        assert event["python"][-1]["function"] == "<module>"
    for event in (event for event in events if event["kind"] == "driver_alloc" and not event["modelled"]):
        assert event["space"] == "device" and event["call"] == "cudaMalloc" and event["native"]
    times = [event["time_ns"] for event in events]
    assert times == sorted(times)


def test_dump_filters(vramtrace, recorded):
    path = recorded("ending.py", "return").path

    def lines(*options):
        return vramtrace.call("dump", *options, path).stdout.splitlines()

    assert len(lines("--kind", "tensor_alloc")) == 10
    assert len(lines("--kind", "tensor_alloc", "--limit", "3")) == 3
    assert len(lines("-k", "tensor_alloc,driver_alloc")) == 10 + len(lines("-k", "driver_alloc"))
    assert lines("--limit", "0") == []
    (line,) = lines("--json", "--kind", "tensor_alloc", "-n1")
    assert "python" not in json.loads(line)
    assert any("ending.py:" in line for line in lines("-v", "-k", "tensor_alloc"))


def test_dump_into_a_closed_pipe(vramtrace, recorded):
    """`dump | head` ends quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    done = vramtrace.call("dump", recorded("ending.py", "return").path, capture_output=False, stdout=writer, stderr=-1)
    os.close(writer)
    assert done.returncode in (2, -signal.SIGPIPE) and done.stderr == ""


def test_verify(vramtrace, recorded):
    verified = vramtrace.json("verify", recorded("ending.py", "return").path)
    (trace,) = verified["traces"]
    assert verified["schema"] == "vramtrace/verify/1"
    assert verified["verdict"] == trace["verdict"] == "whole"
    assert (trace["damage"], trace["problems"], trace["error"]) == ([], [], None)


def test_verify_one_damaged_of_two(vramtrace, record):
    done = record("ending.py", "return")
    (whole,) = trace_files(done.path)
    damaged = bytearray(whole.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (done.path / "other.1.1.vtr").write_bytes(damaged)
    called = vramtrace.call("verify", "--json", done.path)
    verdicts = {trace["trace"].rpartition("/")[2]: trace for trace in json.loads(called.stdout)["traces"]}
    assert called.returncode == 2
    assert verdicts[whole.name]["verdict"] == "whole"
    assert verdicts["other.1.1.vtr"]["verdict"] == "damaged"
    assert verdicts["other.1.1.vtr"]["damage"][0]["offset"] <= len(damaged) // 2
    assert "other.1.1.vtr'" in called.stderr


def test_single_trace_as_recording(vramtrace, recorded):
    (trace,) = trace_files(recorded("ending.py", "return").path)
    for command in ("info", "dump", "verify"):
        assert vramtrace.call(command, trace).returncode == 0


def test_stacks_none(vramtrace, tmp_path):
    done = vramtrace.record(tmp_path / "job.vtr", python("ending.py", "return"), options=["--stacks", "none"])
    (process,) = vramtrace.json("info", done.path)["process_list"]
    assert process["info"]["stacks"] == "none"
    for event in dumped(vramtrace, done.path):
        if event["kind"] == "tensor_alloc":
            assert event["python"] is None and event["native"] is None
    (row,) = [line for line in vramtrace.call("report", done.path).stdout.splitlines() if "no stack" in line]
    assert row.split(None, 5) == ["40.0", "MiB", "100.0%", "10", "no", "stack: float32 [1048576]"]
    assert vramtrace.call("peak", done.path).stdout.count("no stack was captured") == 1
