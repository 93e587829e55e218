# SPDX-License-Identifier: MIT
"""A stock inference engine, which nobody here has written, on the simulated GPU: what is its memory called?

It has an environment of its own ("make test-serving"): 9 GB, and a PyTorch that is newer than that of the other tests.
"""

import json
import os
from pathlib import Path

import pytest


MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,
    "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": False,
}  # fmt: skip
SETTINGS = {
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it would be compiled, for five minutes
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VRAMTRACE_NAMES": "auto",
}


@pytest.fixture(scope="module", params=["eager", "graphs"])
def served(request, vramtrace, tmp_path_factory):
    """The recording of a server's run, and what it has printed."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(json.dumps(MODEL))
    program = [os.environ["VRAMTRACE_SERVING_PYTHON"], JOBS / "serving.py", folder / "model", request.param]
    recording = vramtrace.record(folder / "job.vtr", program, gpu="a10", env=SETTINGS | {"HOME": str(folder)}, cwd=folder)
    assert recording.status == 0, recording.stderr[-4000:]
    return recording, json.loads(recording.stdout.splitlines()[-1])


def peak(vramtrace, recording, *options):
    return vramtrace.json("peak", *options, recording.path)["processes"][0]["devices"][0]


def test_server_answers(vramtrace, served):
    recording, printed = served
    assert printed["tokens"] == [16] * 4
    assert vramtrace.json("report", recording.path)["recording"]["complete"]


def test_peak_has_names(vramtrace, served):
    """99% of the bytes that are allocated at the peak."""
    recording, _ = served
    device = vramtrace.json("report", recording.path)["processes"][0]["devices"][0]
    assert device["names"]["named_bytes_at_peak"] >= 0.99 * device["tensor"]["peak"]["bytes"]
