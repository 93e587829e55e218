# SPDX-License-Identifier: MIT
"""
A stock inference engine, which nobody here has written, on the simulated GPU: what is its memory called?

It has an environment of its own, with another PyTorch (`make test-serving` makes it: 9 GB); without that it is left out.
"""

import json
import os

import pytest

from harness import JOBS, WITH_NAMES
from test_whatif import SETTINGS as SETTINGS_OF_WHATIF

SERVING_PYTHON = os.environ.get("VRAMTRACE_SERVING_PYTHON")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SERVING_PYTHON, reason="VRAMTRACE_SERVING_PYTHON is not set: make test-serving sets it"),
]

# Of 1.1 billion parameters.
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,
    "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": False,
}  # fmt: skip
SETTINGS = WITH_NAMES | {
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it would be compiled, for five minutes
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@pytest.fixture(scope="module", params=["eager", "graphs"])
def served(request, vramtrace, tmp_path_factory):
    """The recording of a run, and what it has printed at last."""
    recording = record(vramtrace, tmp_path_factory.mktemp(request.param), request.param)
    return recording.path, json.loads(recording.stdout.splitlines()[-1]), request.param


def record(vramtrace, folder, how, **settings):
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(json.dumps(MODEL))
    program = [SERVING_PYTHON, JOBS / "serving.py", folder / "model", how]
    recording = vramtrace.record(folder / "job.vtr", program, gpu="a10", env=SETTINGS | {"HOME": str(folder)} | settings, cwd=folder)
    assert recording.status == 0 or settings, recording.stderr[-4000:]
    return recording


@pytest.fixture(scope="module")
def blocks(vramtrace, served):
    """{address: block} of the tensors at the peak."""
    (device,) = vramtrace.json("peak", "--by", "block", served[0])["devices"]
    return {int(block["address"], 16): block for block in device["blocks"]}


def test_server_answers(vramtrace, served):
    path, printed, _ = served
    assert printed["tokens"] == [16] * 4
    assert vramtrace.json("report", path)["recording"]["complete"]


def test_peak_has_names(vramtrace, served, blocks):
    """99% of its bytes, and the largest part of them is known as the cache of keys and values."""
    (device,) = vramtrace.json("report", served[0])["devices"]
    assert device["names"]["named_bytes_at_peak"] >= 0.99 * device["tensor"]["peak_bytes"]
    largest = max(blocks.values(), key=lambda block: block["bytes"])
    assert largest["bytes"] > device["tensor"]["peak_bytes"] / 2 and largest["name"].endswith(".kv_cache")


def test_weights_go_by_the_models_own_path(served, blocks):
    parameters, buffers = served[1]["parameters"], served[1]["buffers"]
    assert len(parameters) > 100
    for name, address in parameters.items():
        assert (blocks[address]["name"], blocks[address]["category"]) == (f"model.{name}", "parameter")
    by_address = {}
    for name, address in buffers.items():
        by_address.setdefault(address, set()).add(f"model.{name}")
    for address, names in by_address.items():
        assert blocks[address]["name"] in names and blocks[address]["category"] == "buffer", names


def test_nothing_goes_by_a_rule_of_training(vramtrace, served, blocks):
    """
    Categories are facts: what is no weight and no buffer, and not filled from the host, is unknown, but for what comes and goes
    with an operation.
    """
    (device,) = vramtrace.json("report", served[0])["devices"]
    categories = device["categories_at_peak"]
    assert categories["gradient"] == categories["optimizer_state"] == categories["activation"] == 0
    copies = map(json.loads, vramtrace.call("dump", "--json", "--kind", "copy", served[0]).stdout.splitlines())
    filled = {event["address"] for event in copies if event.get("source") == 0}
    assert all(block["fact"] and address in filled for address, block in blocks.items() if block["category"] == "input")
    own = set(served[1]["parameters"].values())
    assert {address for address, block in blocks.items() if block["category"] == "parameter"} == own


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS_OF_WHATIF if setting not in ("own", "large-64")])
def test_a_prediction_is_what_a_run_reserves(vramtrace, served, tmp_path, setting):
    """
    Within 1%: the server makes its cache as large as what it finds free. With large segments it does not start, as it sets
    another size of its own while it runs that does not go with it; with half of the GPU, or rounded up, it has no room.
    """
    conf = SETTINGS_OF_WHATIF[setting]
    (told,) = vramtrace.json("whatif", "--conf", conf, served[0])["devices"]
    assert told["model_exact"]
    (seen,) = vramtrace.json("report", record(vramtrace, tmp_path, served[2], PYTORCH_CUDA_ALLOC_CONF=conf).path)["devices"]
    assert told["peak_reserved_bytes"] == pytest.approx(seen["reserved"]["peak_bytes"], rel=0.01)
    assert told["oom"] == (seen["tensor"]["ooms"] > 0)
