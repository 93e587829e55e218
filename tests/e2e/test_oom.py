# SPDX-License-Identifier: MIT
"""`oom` names the cause that a program has planted (jobs/oom), at its line, and none that it has not."""

import ast
import json
import os
import re
import signal
import sys

import pytest

from harness import JOBS, TREE, WITH_NAMES, program_environment, python

SCRIPT = JOBS / "oom" / "causes.py"
PYTORCH_ABORTS = "terminate called without an active exception"
SHAPES = JOBS / "oom" / "shapes.py"
KEPT = JOBS / "oom" / "kept.py"
MIXED = JOBS / "oom" / "mixed.py"
MODELS = JOBS / "oom" / "models.py"
LARGE = JOBS / "oom" / "large.py"
PILED = JOBS / "oom" / "piled.py"
OVERSIGHTS = JOBS / "oom" / "oversights.py"
CONTAINERS = JOBS / "oom" / "containers.py"
UNWATCHED = JOBS / "oom" / "unwatched.py"
UNCALLED = JOBS / "oom" / "uncalled.py"
OVERHELD = JOBS / "oom" / "overheld.py"
LEFTOVER = JOBS / "oom" / "leftover.py"
MISFIT = JOBS / "oom" / "misfit.py"
SCRIPTS = (SCRIPT, SHAPES, KEPT, MIXED, MODELS, LARGE, PILED, OVERSIGHTS, CONTAINERS, UNWATCHED, UNCALLED, OVERHELD, LEFTOVER, MISFIT)
# Verdict and cause of each job, and the job whose line it is about, if another.
CAUSES = {
    "too_big": ("too_big", "never_fits"),
    "model_too_big": ("too_big", "sum"),
    "leak": ("leak", "kept_tensors"),
    "growing_tensor": ("leak", "growing_tensor"),
    "graph_retention": ("graph_retention", "no_backward"),
    "kept_graphs": ("graph_retention", "retain_graph"),
    "retained_graph": ("graph_retention", "retain_graph"),
    "auxiliary": ("graph_retention", "kept_graphs"),
    "predictions": ("leak", "kept_outputs"),
    "evaluation": ("graph_retention", "evaluation"),
    "one_evaluation": ("graph_retention", "evaluation"),
    "ranked": ("graph_retention", "evaluation"),
    "spike": ("spike", "larger_tensor"),
    "long_batch": ("spike", "larger_input"),
    "attention_matrix": ("attention_matrix", "attention_matrix"),
    "lone_sequence": ("attention_matrix", "attention_matrix"),
    "square_attention": ("attention_matrix", "attention_matrix"),
    "bottleneck": ("too_big", "sum"),
    "logits_fp32": ("logits_fp32", "logits_fp32"),
    "fft_upcast": ("fft_upcast", "fft_upcast"),
    "user_limit": ("user_limit", "user_limit"),
    "non_torch": ("non_torch", "non_torch"),
    "other_process": ("other_process", "other_process"),
    "fragmentation": ("fragmentation", "fragmentation"),
    "kv_cache": ("kv_cache", "kv_cache"),
    "optimizer_state": ("too_big", "optimizer_state"),
    "optimizer_temporaries": ("too_big", "optimizer_temporaries"),
    "contiguous_copy": ("contiguous_copy", "contiguous_copy"),
    "traceback": ("graph_retention", "traceback"),
    "published_attention": ("attention_matrix", "attention_matrix"),
    "shifted_logits": ("logits_fp32", "logits_fp32"),
    "plain_batch": ("too_big", "sum"),
    "images": ("too_big", "sum"),
    "recurrent": ("too_big", "sum"),
    "replay": ("too_big", "sum"),
    "accumulation": ("too_big", "optimizer_state"),
    "curriculum": ("too_big", "input_shape"),
    "sorted_batches": ("too_big", "sum"),
    "two_models": ("too_big", "sum"),
    "handled_then_leak": ("leak", "kept_tensors"),
    "batch_sizes": ("too_big", "input_shape"),
    "contrast": ("too_big", "input_shape"),
    "resolutions": ("too_big", "input_shape"),
    "padding": ("padding", "padding"),
    "stacked": ("padding", "padding"),
    "collated": ("spike", "larger_input"),
    "samples": ("spike", "larger_input"),
    "distances": ("spike", "larger_input"),
    "shape_cache": ("leak", "shape_cache"),
    "cross_attention": ("attention_matrix", "attention_matrix"),
    "pictures": ("too_big", "input_shape"),
    "documents": ("too_big", "input_shape"),
    "stored_pairs": ("leak", "kept_tensors"),
    "hook_outputs": ("leak", "kept_tensors"),
    "snapshots": ("leak", "kept_regularly"),
    "labels_too": ("leak", "kept_outputs"),
    "tables": ("leak", "kept_by_calls"),
    "first_upcast": ("logits_fp32", "logits_fp32"),
    "validation": ("graph_retention", "evaluation"),
    "retries": ("graph_retention", "traceback"),
    "probes": ("graph_retention", "past_evaluation"),
    "gathered_rows": ("contiguous_copy", "contiguous_copy"),
    "collected": ("too_big", "list"),
    "expanded_mask": ("contiguous_copy", "expanded_copy"),
    "repeated_masks": ("contiguous_copy", "expanded_copy"),
    "limited_leak": ("leak", "kept_tensors"),
    "micro_batches": ("graph_retention", "no_backward"),
    "sessions": ("fragmentation", "fragmentation"),
    "shards": ("too_big", "sum"),
    "pairs": ("leak", "kept_by_calls"),
    "halves": ("exception", "exception"),
    "biases": ("too_big", "sum"),
    "history": ("too_big", "optimizer_history"),
    "averaged": ("too_big", "optimizer_temporaries"),
    "growing_list": ("fragmentation", "fragmentation"),
    "weights_of_words": ("attention_matrix", "attention_matrix"),
    "large_pictures": ("spike", "larger_input"),
    "buffers": ("spike", "larger_input"),
    "windows": ("fragmentation", "fragmentation"),
    "gradients": ("leak", "kept_tensors"),
    "searched": ("leak", "traceback"),
    "circles": ("cycle", "cycle"),
    "small_circles": ("too_big", "sum"),
    "kept_errors": ("exception", "exception"),
    "streamed": ("too_big", "sum"),
    "rollout": ("graph_retention", "no_backward"),
    "messages": ("fragmentation", "fragmentation"),
    "latents": ("attention_matrix", "attention_matrix"),
    "similarities": ("spike", "larger_tensor"),
    "long_filter": ("fft_upcast", "fft_upcast"),
    "normed_speech": ("too_big", "sum"),
    "many_words": ("logits_fp32", "logits_fp32"),
    "long_prompt": ("logits_fp32", "logits_fp32"),
    "renewed": ("leak", "kept_tensors"),
    "best_of_all": ("leak", "kept_tensors"),
    "schedules": ("leak", "kept_tensors"),
    "rates": ("leak", "kept_tensors"),
    "checked": ("graph_retention", "kept_graphs"),
    "rejected": ("exception", "exception"),
    "put_aside": ("leak", "kept_regularly"),
    "tenants": ("too_big", "sum"),
    "slow_copy": ("too_big", "sum"),
    "student": ("too_big", "sum"),
    "thawed": ("too_big", "optimizer_state"),
    "heads_only": ("too_big", "sum"),
    "critic": ("too_big", "sum"),
    "gaps": ("too_big", "never_fits"),
    "baskets": ("too_big", "never_fits"),
    "long_document": ("spike", "larger_input"),
    "targets": ("too_big", "input_shape"),
    "kernel": ("too_big", "sum"),
    "double": ("spike", "larger_tensor"),
    "large_order": ("spike", "larger_input"),
    "firsts": ("leak", "kept_outputs"),
    "trials": ("leak", "kept_tensors"),
    "masks": ("too_big", "sum"),
    "uneven": ("too_big", "sum"),
    "ahead": ("too_big", "sum"),
    "replaced": ("leak", "kept_regularly"),
    "sharpness": ("graph_retention", "kept_graphs"),
    "streams": ("leak", "kept_by_calls"),
    "graphs": ("fragmentation", "fragmentation"),
    "masks_of_all": ("too_big", "never_fits"),
    "unrolled": ("graph_retention", "retain_graph"),
    "whitened": ("too_big", "optimizer_temporaries"),
    "each_sample": ("too_big", "sample_gradients"),
    "gated": ("cycle", "cycle"),
    "timbres": ("leak", "kept_by_calls"),
    "beliefs": ("leak", "kept_tensors"),
    "towns": ("too_big", "sum"),
    "usual": ("graph_retention", "kept_graphs"),
    "offered": ("too_big", "sum"),
    "lookback": ("too_big", "sum"),
    "taps": ("leak", "kept_tensors"),
    "gathered": ("leak", "growing_tensor"),
    "surfaces": ("spike", "larger_tensor"),
    "rounds": ("leak", "kept_tensors"),
    "backlog": ("leak", "kept_outputs"),
    "seasons": ("leak", "kept_tensors"),
    "carpets": ("too_big", "sum"),
    "accuracy": ("spike", "larger_tensor"),
    "letters": ("spike", "larger_input"),
    "districts": ("too_big", "sum"),
    "weighed": ("leak", "kept_tensors"),
    "slides": ("fragmentation", "fragmentation"),
    "curvature": ("graph_retention", "retain_graph"),
    "voices": ("leak", "kept_tensors"),
    "choirs": ("leak", "kept_tensors"),
    "members": ("too_big", "sum"),
    "canvases": ("leak", "kept_tensors"),
    "chunks": ("too_big", "sample_gradients"),
    "threes": ("spike", "larger_tensor"),
    "hindcasts": ("leak", "kept_outputs"),
    "seats": ("leak", "kept_by_calls"),
    "scales": ("graph_retention", "no_backward"),
    "thinned": ("fragmentation", "fragmentation"),
    "copies": ("leak", "kept_tensors"),
    "directions": ("graph_retention", "kept_graphs"),
    "lamps": ("graph_retention", "evaluation"),
    "engines": ("leak", "kept_tensors"),
    "slopes": ("spike", "larger_tensor"),
    "ranking": ("too_big", "sample_gradients"),
    "renewals": ("leak", "kept_tensors"),
    "speeds": ("leak", "kept_tensors"),
    "shuffled": ("spike", "larger_tensor"),
    "replicas": ("spike", "larger_input"),
    "longer": ("spike", "larger_input"),
    "jurors": ("leak", "kept_tensors"),
    "contracted": ("too_big", "sum"),
    "strips": ("fragmentation", "fragmentation"),
    "drafts": ("leak", "kept_outputs"),
    "replies": ("leak", "kept_outputs"),
    "wills": ("leak", "kept_tensors"),
    "weighted": ("too_big", "never_fits"),
    "trays": ("fragmentation", "fragmentation"),
    "stays": ("spike", "larger_input"),
    "clubs": ("too_big", "sum"),
    "glances": ("attention_matrix", "attention_matrix"),
    "stars": ("too_big", "sum"),
    "routes": ("fragmentation", "fragmentation"),
    "neighbours": ("too_big", "never_fits"),
    "reports": ("leak", "kept_regularly"),
    "tapers": ("too_big", "sum"),
    "dyed": ("too_big", "sum"),
    "spells": ("attention_matrix", "attention_matrix"),
    "gates": ("leak", "kept_regularly"),
    "bouts": ("attention_matrix", "attention_matrix"),
    "index": ("leak", "kept_tensors"),
    "refusals": ("graph_retention", "kept_graphs"),
    "plates": ("leak", "kept_by_calls"),
    "tiles": ("fragmentation", "fragmentation"),
    "twofold": ("graph_retention", "retain_graph"),
    "labelled": ("fragmentation", "fragmentation"),
    "sittings": ("leak", "kept_tensors"),
    "figures": ("too_big", "list"),
    "settled": ("graph_retention", "evaluation"),
    "reliefs": ("leak", "kept_tensors"),
    "reels": ("leak", "kept_tensors"),
    "doors": ("leak", "kept_outputs"),
    "films": ("too_big", "sum"),
    "silent": ("leak", "kept_tensors"),
    "damped": ("leak", "kept_tensors"),
    "brightness": ("spike", "larger_tensor"),
    "idle_visits": ("leak", "kept_tensors"),
    "told_once": ("too_big", "optimizer_state"),
    "read_aloud": ("too_big", "never_fits"),
    "misspelt": ("too_big", "optimizer_state"),
    "attempts": ("leak", "kept_tensors"),
    "takes": ("too_big", "sum"),
    "swaps": ("leak", "kept_regularly"),
    "handlers": ("leak", "kept_tensors"),
    "read_in_full": ("logits_fp32", "logits_fp32"),
    "played": ("graph_retention", "no_backward"),
    "forecast": ("too_big", "sum"),
    "undone": ("too_big", "sum"),
    "taught": ("too_big", "sum"),
    "tides": ("leak", "kept_tensors"),
    "trunks": ("leak", "kept_tensors"),
    "standings": ("too_big", "sum"),
    "answers": ("graph_retention", "no_backward"),
    "wardens": ("too_big", "sum"),
    "freights": ("too_big", "sum"),
    "strings": ("too_big", "sum"),
    "pipes": ("too_big", "sum"),
    "tickers": ("graph_retention", "retain_graph"),
    "walkers": ("leak", "kept_outputs"),
    "moths": ("graph_retention", "kept_graphs"),
    "cargoes": ("leak", "kept_tensors"),
    "portions": ("too_big", "sum"),
    "fields": ("too_big", "sum"),
    "codes": ("graph_retention", "retain_graph"),
    "shelves": ("leak", "kept_outputs"),
    "branches": ("leak", "kept_tensors"),
    "orbits": ("graph_retention", "kept_graphs"),
    "meadows": ("too_big", "sum"),
    "gauges": ("spike", "larger_tensor"),
    "hashes": ("too_big", "optimizer_state"),
    "chapters": ("leak", "kept_outputs"),
    "herbs": ("leak", "kept_outputs"),
    "dunes": ("too_big", "sum"),
    "shadows": ("too_big", "sum"),
    "negatives": ("too_big", "sum"),
    "noses": ("leak", "kept_tensors"),
    "intervals": ("too_big", "sum"),
    "junctions": ("attention_matrix", "attention_matrix"),
    "strata": ("too_big", "sample_gradients"),
    "mosaics": ("spike", "larger_input"),
    "ebbs": ("spike", "larger_tensor"),
    "glades": ("too_big", "sum"),
}
LINES = {
    "handled_then_leak": "leak",
    "resolutions": "batch_sizes",
    "lone_sequence": "attention_matrix",
    "retries": "validation",
    "probes": "hook_outputs",
    "long_prompt": "many_words",
    "best_of_all": "schedules",
    "herbs": "chapters",
}
# Of those whose memory follows the shape of the batch: how, and by which dimension shapes.py is told to try another.
FITS = {
    "batch_sizes": ("linear", 0),
    "contrast": ("quadratic", 0),
    "resolutions": ("linear", 3),
}
CAPACITY = 4 << 30
DOCUMENT = TREE / "docs" / "diagnosis.md"


# What is said beside the cause, since it is true, too; the other jobs have one cause each.
BESIDE = {"limited_leak": ["user_limit"], "long_document": ["attention_matrix"], "graphs": ["kept_by_calls"], "strips": ["kept_by_calls"],
    "sittings": ["fragmentation"],
          "slides": ["kept_outputs"], "curvature": ["fragmentation"], "scales": ["fragmentation"], "plates": ["fragmentation"]}  # fmt: skip
# Jobs whose line lies in the model's forward: the line that calls it is told beside it.
CALLED = {"hook_outputs", "validation", "retries", "probes", "large_order", "trials", "surfaces", "canvases", "chunks", "wills", "each_sample", "engines", "ranking", "slopes", "settled", "reliefs", "reels", "silent", "attempts", "undone", "answers",
    "freights", "strings", "tickers", "walkers", "moths", "portions", "shelves", "branches", "gauges", "chapters", "herbs", "shadows",
    "strata", "mosaics", "dunes"}


def script_of(cause):
    return next(script for script in SCRIPTS if f"\ndef {cause}(" in script.read_text())


def planted_line(cause, word="planted"):
    text = script_of(cause).read_text().splitlines()
    marks = [i for i, line in enumerate(text, 1) if line.endswith(f"# {word}: {cause}")]
    assert len(marks) == 1, cause
    return marks[0]


@pytest.fixture(scope="module")
def ran_out(vramtrace, tmp_path_factory):
    made = {}

    def record(cause):
        if cause not in made:
            path = tmp_path_factory.mktemp(cause) / "job.vtr"
            options = ("--simulate-capacity", "4GiB")
            made[cause] = vramtrace.record(path, python(script_of(cause), cause), options=options, env=WITH_NAMES)
            # PyTorch itself ends so after one in ten tracebacks out of backward, recorded or not.
            for _ in range(3):
                if made[cause].status != -signal.SIGABRT or PYTORCH_ABORTS not in made[cause].stderr:
                    break
                made[cause] = vramtrace.record(path, python(script_of(cause), cause), options=(*options, "--force"), env=WITH_NAMES)
        return made[cause]

    return record


@pytest.mark.parametrize("cause", CAUSES)
def test_planted_cause_is_found(vramtrace, ran_out, cause):
    recording = ran_out(cause)
    assert recording.status == 1 and "OutOfMemoryError" in recording.stderr
    told = vramtrace.json("oom", recording.path)
    first = told["findings"][0]
    assert (first["verdict"], first["cause"]) == CAUSES[cause]
    assert first["site"]["file"] == str(script_of(cause))
    assert first["site"]["line"] == planted_line(LINES.get(cause, cause))
    called = planted_line(cause, "called") if cause in CALLED else None
    assert (first["caller"] and first["caller"]["line"]) == called
    assert [finding["cause"] for finding in told["findings"][1:]] == BESIDE.get(cause, [])
    # The report says the same.
    assert vramtrace.json("report", recording.path)["findings"] == told["findings"]


@pytest.mark.parametrize("cause", CAUSES)
def test_page_fits_a_screen(vramtrace, ran_out, cause):
    done = vramtrace.call("oom", ran_out(cause).path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) <= 24
    assert all(len(line) <= 80 for line in lines), [line for line in lines if len(line) > 80]
    assert lines[1].removeprefix("probably ").startswith(CAUSES[cause][0] + ": ")
    # Why it is comes before how far something else would put it off.
    (first, *_) = vramtrace.json("oom", ran_out(cause).path)["findings"]
    if first["evidence"] and "only delays" in done.stdout:
        assert any(line.startswith("- ") for line in lines[1 : lines.index("")]), lines
    # So does the report, which names the verdict in one line.
    path = ran_out(cause).path
    lines = vramtrace.call("report", path).stdout.splitlines()
    assert len(lines) <= 24 and all(len(line) <= 80 for line in lines if str(path) not in line), lines
    assert sum(line.replace("probably ", "").startswith(f"Cause: {CAUSES[cause][0]} at ") for line in lines) == 1


LEAK_PAGE = """\
Out of memory on GPU 0, NVIDIA H100 80GB HBM3 (simulated)
leak: 3.19 GiB is still there from 51 earlier steps; each added 64.1 MiB.
  at oom/causes.py:LINE in leak
  named history[*], kept by history, a list of 52, in leak() at
     oom/causes.py:DEF
- 51 blocks left from nearly every step, 2 to 52: 64.1 MiB per step

asked            64.1 MiB   step 53, other, at oom/causes.py:LINE
capacity         4.00 GiB
reserved         3.46 GiB
allocated        3.35 GiB   110 MiB cached
outside PyTorch   500 MiB   context 500 MiB
free             58.0 MiB   58.0 MiB would have fitted at most

 held by  share  blocks  mostly      allocated at
3.27 GiB  97.6%      53  activation  oom/causes.py:LINE leak (history[*])
65.0 MiB   1.9%       3  workspace   oom/causes.py:TRAIN train
16.0 MiB   0.5%       8  parameter   oom/causes.py:NETWORK network
Step 53 began with 3.27 GiB allocated, +64.1 MiB against the step before.
next: history.clear(): frees 3.19 GiB allocated at causes.py:LINE
      do not keep it, or keep it on the CPU: frees 3.19 GiB
      needing 76.0 MiB less elsewhere only delays the failure to about step 54
"""


def test_inference_is_not_told_how_to_train(vramtrace, ran_out):
    """Without autograd nothing is kept for a backward pass: no parts of a batch, no offloading, no recomputation."""
    told = vramtrace.json("oom", ran_out("kv_cache").path)
    kinds = {row["kind"] for row in told["advice"]}
    assert not kinds & {"accumulation", "activation_offload", "checkpointing", "shorter_sequence"}, kinds


def test_page_of_a_leak(vramtrace, ran_out):
    lines = SCRIPT.read_text().splitlines()

    def line_of(text):
        return str(next(i for i, line in enumerate(lines, 1) if text in line))

    page = LEAK_PAGE.replace("LINE", str(planted_line("leak"))).replace("DEF", line_of("def leak():"))
    page = page.replace("TRAIN", line_of("loss = model(x)")).replace("NETWORK", line_of("return nn.Sequential(*[part"))
    assert vramtrace.call("oom", ran_out("leak").path).stdout == page


def test_how_certain_it_is(vramtrace, ran_out, tmp_path):
    """A census that saw what keeps a leak makes it certain; without, the page says "probably", and what would tell."""
    (seen,) = vramtrace.json("oom", ran_out("leak").path)["findings"]
    assert seen["certainty"] == "proven" and "certain_with" not in seen
    options = ("--simulate-capacity", "4GiB")
    unnamed = vramtrace.record(tmp_path / "job.vtr", python(script_of("leak"), "leak"), options=options, env={"VRAMTRACE_NAMES": "off"})
    (unseen,) = vramtrace.json("oom", unnamed.path)["findings"]
    assert (unseen["verdict"], unseen["certainty"]) == ("leak", "likely")
    assert unseen["certain_with"] == {"says": "certain_with_names"}
    lines = vramtrace.call("oom", unnamed.path).stdout.splitlines()
    assert lines[1].startswith("probably leak: ") and any(line.startswith("- certain only with names") for line in lines)


SHARED = '''
import torch
model = torch.nn.Linear(1024, 1024, device="cuda")
kept, twin = [], []
for _ in range(100):
    model(torch.randn(64, 1024, device="cuda")).sum().backward()
    model.zero_grad()
    kept.append(torch.ones(64 << 20, dtype=torch.uint8, device="cuda"))
    twin.append(kept[-1])
'''


def test_what_two_hold_neither_lets_go_of(vramtrace, tmp_path):
    (tmp_path / "shared.py").write_text(SHARED)
    run = vramtrace.record(tmp_path / "job.vtr", python(tmp_path / "shared.py"), options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    (found,) = vramtrace.json("oom", run.path)["findings"]
    assert (found["verdict"], found["keepers"][0]["kind"]) == ("leak", "list") and "let_go_by" not in found
    assert "let_go_advice" not in [facts["says"] for facts in found["advice_facts"]]


def test_who_keeps_graphs_is_named(vramtrace, ran_out):
    """The list of outputs, and not the tensors that their graphs have saved."""
    (found,) = vramtrace.json("oom", ran_out("kept_graphs").path)["findings"]
    assert (found["keepers"][0]["kind"], found["certainty"]) == ("list", "proven")
    first = found["advice_facts"][0]
    assert first["says"] == "let_go_advice" and first["code"].endswith(".append(x.detach()) in place of x")


# What is to be done first, where that is of the cause's own and the batch may stay as it is.
FIRST = {
    "long_document": "larger_rows_advice",
    "gaps": "spike_advice",
    "baskets": "one_hot_advice",
    "growing_tensor": "growing_in_place_advice",
    "targets": "pairs_advice",
    "kernel": "in_place_advice",
    "jurors": "autocast_advice",
    "contracted": "einsum_advice",
    "wills": "older_method_advice",
    "weighted": "diagonal_advice",
    "stars": "embedding_advice",
    "neighbours": "sparse_advice",
    "reports": "let_go_advice",
    "tapers": "double_advice",
    "dyed": "einsum_advice",
    "spells": "attention_weights_advice",
    "gates": "growing_module_advice",
    "bouts": "batch_first_advice",
    "index": "made_longer_advice",
    "refusals": "let_go_advice",
    "plates": "let_go_advice",
    "tiles": "pieces_copy_advice",
    "twofold": "retained_advice",
    "labelled": "pieces_copy_advice",
    "sittings": "let_go_advice",
    "figures": "list_of_call_advice",
    "settled": "unused_graph_advice",
    "reliefs": "called_again_advice",
    "reels": "replaced_advice",
    "doors": "let_go_advice",
    "films": "freeze_module_advice",
    "told_once": "idle_model_advice",
    "read_aloud": "logits_needed_advice",
    "misspelt": "freeze_parameters_advice",
    "attempts": "older_method_advice",
    "takes": "split_advice",
    "swaps": "let_go_in_advice",
    "read_in_full": "logits_needed_advice",
    "played": "let_go_advice",
    "forecast": "open_advice",
    "undone": "train_mode_advice",
    "taught": "left_out_advice",
    "tides": "let_go_advice",
    "trunks": "let_go_advice",
    "standings": "sorting_advice",
    "answers": "let_go_advice",
    "wardens": "calls_in_flight_advice",
    "freights": "rounds_advice",
    "strings": "rounds_graph_advice",
    "pipes": "keyed_by_tensors_advice",
    "tickers": "retain_advice",
    "walkers": "generators_advice",
    "moths": "let_go_advice",
    "cargoes": "let_go_advice",
    "portions": "outer_advice",
    "fields": "open_advice",
    "codes": "no_graphs_advice",
    "shelves": "let_go_advice",
    "branches": "let_go_advice",
    "orbits": "no_graphs_advice",
    "meadows": "freeze_parameters_advice",
    "gauges": "pairs_advice",
    "hashes": "embedding_advice",
    "chapters": "let_go_advice",
    "herbs": "let_go_advice",
    "dunes": "rounds_advice",
    "shadows": "outer_advice",
    "negatives": "widened_advice",
    "noses": "older_cache_advice",
    "intervals": "looked_up_advice",
    "junctions": "batch_first_advice",
    "strata": "samples_advice",
    "mosaics": "enlarged_advice",
    "ebbs": "pairs_advice",
    "glades": "freeze_module_advice",
    "handlers": "let_go_advice",
    "silent": "hooked_advice",
    "damped": "let_go_advice",
    "brightness": "loss_pairs_advice",
    "idle_visits": "let_go_advice",
    "trays": "pieces_copy_advice",
    "stays": "larger_rows_advice",
    "clubs": "models_alike_advice",
    "glances": "attention_kept_advice",
    "published_attention": "attention_weights_advice",
    "double": "double_advice",
    "large_order": "larger_call_advice",
    "firsts": "let_go_advice",
    "trials": "older_holder_advice",
    "masks": "integers_advice",
    "uneven": "pairs_advice",
    "ahead": "line_has_most_advice",
    "replaced": "let_go_advice",
    "sharpness": "cycles_advice",
    "streams": "calls_keep_some_advice",
    "graphs": "graphs_pool_advice",
    "masks_of_all": "buffer_advice",
    "unrolled": "outer_advice",
    "accuracy": "pairs_advice",
    "letters": "larger_rows_advice",
    "districts": "models_alike_advice",
    "weighed": "let_go_advice",
    "curvature": "gradients_advice",
    "voices": "older_groups_advice",
    "rejects": "exception_entries_advice",
    "visits": "generators_advice",
    "choirs": "older_groups_advice",
    "canvases": "older_groups_advice",
    "each_sample": "samples_advice",
    "chunks": "samples_advice",
    "threes": "threes_advice",
    "hindcasts": "let_go_advice",
    "seats": "let_go_advice",
    "scales": "inference_advice",
    "thinned": "pieces_copy_advice",
    "copies": "made_anew_advice",
    "directions": "let_go_advice",
    "lamps": "inference_advice",
    "engines": "let_go_advice",
    "slopes": "chunks_advice",
    "ranking": "samples_advice",
    "renewals": "made_anew_advice",
    "speeds": "let_go_advice",
    "shuffled": "spike_of_copy_advice",
    "members": "models_stacked_advice",
    "tunings": "modules_nested_advice",
    "one_checkpoint": "recomputed_advice",
    "gated": "let_go_advice",
    "taps": "let_go_advice",
    "rounds": "let_go_advice",
    "backlog": "let_go_advice",
    "heads": "older_groups_advice",
    "beliefs": "let_go_advice",
    "towns": "spike_advice",
    "usual": "let_go_advice",
    "whitened": "optimizer_squares_advice",
    "many_words": "logits_advice",
    "long_prompt": "logits_needed_advice",
    "renewed": "older_holder_advice",
    "best_of_all": "older_holder_advice",
    "schedules": "older_holder_advice",
    "rates": "older_optimizers_advice",
    "checked": "let_go_advice",
    "thawed": "trained_part_advice",
    "heads_only": "left_out_advice",
}


def test_graphs_of_one_pool_are_to_be_captured_largest_first(vramtrace, tmp_path):
    """What is said of pools of their own would be in vain."""
    text = script_of("graphs").read_text().replace("torch.cuda.graph(graph)", "torch.cuda.graph(graph, pool=pool)")
    (tmp_path / "shared.py").write_text(text.replace("DEVICE = ", "pool = torch.cuda.graph_pool_handle()\nDEVICE = "))
    command = python(tmp_path / "shared.py", "graphs")
    run = vramtrace.record(tmp_path / "job.vtr", command, options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    (found,) = [one for one in vramtrace.json("oom", run.path)["findings"] if one["cause"] == "fragmentation"]
    assert found["facts"]["says"] == "pieces_of_graphs"
    assert [facts["says"] for facts in found["advice_facts"]][:1] == ["graphs_order_advice"]


def test_gradients_of_each_sample_are_told(vramtrace, ran_out):
    """By their shapes: 320 times that of several parameters, of a convolution in its first dimension."""
    (found, *_) = vramtrace.json("oom", ran_out("each_sample").path)["findings"]
    told = found["facts"]
    assert told["says"] == "samples_have_gradients" and told["samples"] == 320 and told["bytes"] > CAPACITY


def test_tensors_that_wait_are_told_where_they_are_made(vramtrace, tmp_path):
    """Not where the request failed, which the model made for the one that is in use."""
    text = script_of("ahead").read_text()
    (tmp_path / "fewer.py").write_text(text.replace("len(self.ready) < 100", "len(self.ready) < 72"))
    command = python(tmp_path / "fewer.py", "ahead")
    run = vramtrace.record(tmp_path / "job.vtr", command, options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    page = vramtrace.json("oom", run.path)
    (found, *_) = page["findings"]
    assert found["facts"]["says"] == "line_has_most"
    assert found["site"]["line"] == planted_line("ahead") != page["devices"][0]["failures"][0]["site"]["line"]
    assert found["facts"]["keeper"] == "kept by the generator Reader.parts()"


PICTURES = """
import torch
pictures = torch.zeros(900, 1024, 1024, dtype=torch.uint8, device="cuda")
light = pictures.float()
"""


def test_what_is_converted_is_no_buffer_to_be_filled(vramtrace, tmp_path):
    (tmp_path / "job.py").write_text(PICTURES)
    run = vramtrace.record(tmp_path / "job.vtr", python(tmp_path / "job.py"), options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    (found, *_) = vramtrace.json("oom", run.path)["findings"]
    first = found["advice_facts"][0]
    assert (first["says"], first["name"], first["narrow"], first["wide"]) == ("widened_advice", "pictures", "uint8", "float32")
    assert "buffer_is" not in [facts["says"] for facts in found["evidence_facts"]]


NUMBERED = """
import torch
rows = {}
for number in range(1000):
    rows[number] = torch.zeros(64, 1 << 18, dtype=torch.long, device="cuda")
"""


def test_many_of_whole_numbers_are_told_by_who_keeps_them(vramtrace, tmp_path):
    """That each is in int64 is said below: fewer of them would do, whatever they are in."""
    (tmp_path / "job.py").write_text(NUMBERED)
    run = vramtrace.record(tmp_path / "job.vtr", python(tmp_path / "job.py"), options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    (found, *_) = vramtrace.json("oom", run.path)["findings"]
    assert (found["facts"]["says"], found["facts"]["keeper"]) == ("line_has_most", "kept by rows")


def test_a_chain_has_one_name(vramtrace, ran_out):
    """However long it is: each of its objects has the next by the same attribute."""
    page = vramtrace.json("oom", ran_out("beliefs").path)
    assert page["findings"][0]["keepers"][0]["name"] == "today.before..."
    assert page["findings"][0]["facts"]["attribute"] == "before"
    assert page["findings"][0]["advice_facts"][0]["code"] == "today.before = None once it is not needed"


def test_what_another_thread_has_is_not_of_an_attempt(vramtrace, ran_out):
    """Its request failed while that of the thread that trains did not: nothing is there of an attempt that failed."""
    page = vramtrace.json("oom", ran_out("offered").path)
    assert len(page["devices"][0]["failures"]) == 2
    assert "traceback" not in [found["cause"] for found in page["findings"]]


def test_a_module_that_gets_more_parameters_is_named(vramtrace, ran_out):
    (found, *_) = vramtrace.json("oom", ran_out("timbres").path)["findings"]
    advice = found["advice_facts"][0]
    assert (advice["says"], advice["holder"]) == ("growing_module_advice", "voices.timbres")
    (had,) = [facts for facts in found["evidence_facts"] if facts["says"] == "growing_had"]
    assert had["holder"] == "voices.timbres" and had["first"] < had["last"] >= 200


def test_what_has_all_that_it_may_have_is_no_leak(vramtrace, ran_out):
    aside = vramtrace.json("oom", ran_out("lookback").path)["set_aside"]
    assert "aside_full" in [one["facts"]["says"] for one in aside]


def test_a_step_that_computes_with_more_than_all_before(vramtrace, ran_out):
    """Of what it was given nothing was larger: rows and columns were never many at once."""
    (found, *_) = vramtrace.json("oom", ran_out("carpets").path)["findings"]
    (larger,) = [facts for facts in found["evidence_facts"] if facts["says"] == "larger_step"]
    assert larger["steps"] == 50 and 3 < larger["times"] < 4


def test_what_is_nested_from_the_beginning_is_no_wrapping(vramtrace, ran_out):
    (found, *_) = vramtrace.json("oom", ran_out("nested").path)["findings"]
    assert found["facts"]["says"] != "modules_nested", found
    (found, *_) = vramtrace.json("oom", ran_out("tunings").path)["findings"]
    said = found["facts"]
    assert said["says"] == "modules_nested" and said["times"] > 3 and said["name"] == "model.*.layer.layer..."


def test_models_of_one_class_are_counted(vramtrace, ran_out):
    """Who holds them, and how much of one more is there."""
    (found, *_) = vramtrace.json("oom", ran_out("districts").path)["findings"]
    assert (found["facts"]["models"], found["facts"]["class"]) == (37, "Forecast")
    said = {facts["says"]: facts for facts in found["evidence_facts"]}
    assert said["older_holder"]["holder"] == "forecasts['district *']"
    assert 0 < found["facts"]["more_bytes"] < found["bytes"] / 37


def test_a_value_for_each_pair_is_told(vramtrace, ran_out):
    """Of 120,000 answers; and what the check of 2,000 needed."""
    (found, *_) = vramtrace.json("oom", ran_out("accuracy").path)["findings"]
    assert found["facts"]["rows"] == 120_000
    (before,) = [facts for facts in found["evidence_facts"] if facts["says"] == "spike_was_less"]
    assert 0 <= before["before_bytes"] - 2000 * 2000 < 512


EIGHT_STEPS = [
    "layer = torch.nn.Linear(64, 64, device='cuda')",
    "for step in range(8):",
    "    layer(torch.randn(64, 64, device='cuda')).mean().backward()",
]


@pytest.mark.parametrize("call, said", [
    ("torch.linalg.svd(table)", "svd_advice"),
    ("torch.corrcoef(table)", "correlation_advice"),
    ("(table @ table.T).exp()", "spike_advice"),
])  # fmt: skip
def test_what_makes_a_square_tells_what_to_do(vramtrace, tmp_path, call, said):
    told = fails_in_2_gib(
        vramtrace, tmp_path,
        *EIGHT_STEPS,
        "with torch.no_grad():",
        "    for n in (1000, 30000):",
        "        table = torch.randn(n, 200, device='cuda')",
        f"        {call}",
    )
    assert (told["cause"], told["facts"]["rows"]) == ("larger_tensor", 30000), told
    assert told["advice_facts"][0]["says"] == said


def test_who_calls_what_is_out_of_line_in_a_pass(vramtrace, tmp_path):
    """Of a Jacobian's backward pass the line is the model's, which goes through in each step: the call is told beside it."""
    told = fails_in_2_gib(
        vramtrace, tmp_path,
        "class Net(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.a, self.b = torch.nn.Linear(256, 2048), torch.nn.Linear(2048, 8)",
        "    def forward(self, x):",
        "        return self.b(torch.relu(self.a(x)))",
        "layer = Net().cuda()",
        "for step in range(8):",
        "    layer(torch.randn(64, 256, device='cuda')).mean().backward()",
        "def slopes(x):",
        "    return torch.autograd.functional.jacobian(layer, x, vectorize=True)",
        "slopes(torch.randn(160, 256, device='cuda'))",
    )
    assert told["cause"] == "larger_tensor" and told["caller"]["function"] == "slopes", told


def test_the_largest_of_a_step_is_not_what_went_before_it(vramtrace, tmp_path):
    """Of one step, too: a district's matrix of 64 MiB went through, the next is of 3 GiB, and is needed twice."""
    told = fails_in_2_gib(
        vramtrace, tmp_path,
        *EIGHT_STEPS,
        "with torch.no_grad():",
        "    for n in (4096, 3000, 14000):",
        "        places = torch.randn(n, 64, device='cuda')",
        "        (torch.cdist(places, places) * 0.5).exp()",
    )
    assert told["cause"] == "larger_tensor" and told["facts"]["rows"] == 14000, told
    (before,) = [facts for facts in told["evidence_facts"] if facts["says"] == "spike_was_less"]
    assert before["before_bytes"] == 64 << 20
    assert [said["says"] for said in told["advice_facts"]] == ["spike_advice", "square_advice"]


def test_an_exception_where_a_census_was_cut(vramtrace, tmp_path):
    """What its traceback's variables lead to is in their graphs, whether a census has come as far as that or not."""
    run = vramtrace.record(tmp_path / "job.vtr", python("oom/piled.py", "unheard"), options=("--simulate-capacity", "4GiB"),
                           env=WITH_NAMES | {"VRAMTRACE_NAMES_MEMORY": "1MiB"})  # fmt: skip
    assert run.status == 1 and "OutOfMemoryError" in run.stderr
    (found, *_) = vramtrace.json("oom", run.path)["findings"]
    assert found["cause"] == "exception" and found["bytes"] > CAPACITY * 2 / 3


def test_parts_are_as_large_as_what_went_through(vramtrace, ran_out):
    """Wherever the line was called from: in training it was for fewer places still."""
    (found, *_) = vramtrace.json("oom", ran_out("surfaces").path)["findings"]
    assert found["advice_facts"][0]["parts"] == 16


def test_what_goes_on_from_run_to_run_is_named(vramtrace, ran_out):
    (found, *_) = vramtrace.json("oom", ran_out("dunes").path)["findings"]
    assert found["evidence_facts"][0]["says"] == "rounds_carry" and found["evidence_facts"][0]["name"] == "sand"


def test_all_that_hold_older_models_are_named(vramtrace, ran_out):
    (found, *_) = vramtrace.json("oom", ran_out("seasons").path)["findings"]
    assert found["advice_facts"][0]["holder"] == "bench.models[*] and bench.optimizers[*]"


@pytest.mark.parametrize("cause", FIRST)
def test_what_is_to_be_done_first(vramtrace, ran_out, cause):
    (finding, *_) = vramtrace.json("oom", ran_out(cause).path)["findings"]
    assert finding["advice_facts"][0]["says"] == FIRST[cause]


def test_what_is_told_of_large_tensors(vramtrace, ran_out):
    """Of copies that could be one, how many; of views, how little they look at; a picture is no matrix of attention."""
    (kernel, *_) = vramtrace.json("oom", ran_out("kernel").path)["findings"]
    (alike,) = [facts for facts in kernel["evidence_facts"] if facts["says"] == "alike_are_there"]
    assert (alike["tensors"], alike["operation"]) == (3, "neg")
    (firsts, *_) = vramtrace.json("oom", ran_out("firsts").path)["findings"]
    (views,) = [facts for facts in firsts["evidence_facts"] if facts["says"] == "views_of_more"]
    assert views["seen_bytes"] * 256 == views["kept_bytes"] and firsts["advice_facts"][0]["code"] == "kept.append(x.clone()) in place of x, a view of a larger tensor"
    causes = [facts["cause"] for facts in vramtrace.json("oom", ran_out("large_order").path)["set_aside"]]
    assert causes and "attention_matrix" not in causes


def test_what_evaluates_and_is_frozen_is_not_said_to_be_trained(vramtrace, ran_out):
    """Nodes are made in it for the sake of what comes before it."""
    (finding, *_) = vramtrace.json("oom", ran_out("critic").path)["findings"]
    assert finding["facts"]["says"] == "sum_of_tensors" and finding["advice_facts"] == []
    assert "trained_part_has" not in [facts["says"] for facts in finding["evidence_facts"]]


EVALUATES = """
import torch
from torch import nn
model = nn.Sequential(*(part for _ in range(16) for part in (nn.Linear(2048, 2048), nn.GELU()))).to("cuda").eval()
{optimizer}
rows = torch.randn(2048, 2048, device="cuda")
for _ in range(40):
    rows = model(rows) + 0.1
"""


@pytest.mark.parametrize(("optimizer", "is_told"), [("", True), ("optimizer = torch.optim.SGD(model.parameters())", False)])
def test_graphs_in_evaluation_mode_are_for_whom_no_optimizer_is(vramtrace, tmp_path, optimizer, is_told):
    """Some train in evaluation mode: before their first backward pass that they have an optimizer tells."""
    script = tmp_path / "rows.py"
    script.write_text(EVALUATES.format(optimizer=optimizer))
    done = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    (found, *_) = vramtrace.json("oom", done.path)["findings"]
    assert (found["facts"]["says"] == "open_in_evaluation") == is_told, found
    assert ("evaluation_advice" in [facts["says"] for facts in found["advice_facts"]]) == is_told


def test_who_keeps_what_has_many_names(vramtrace, ran_out):
    """One list has all of them, though no name is that of most."""
    (finding, *_) = vramtrace.json("oom", ran_out("put_aside").path)["findings"]
    assert finding["certainty"] == "proven"
    assert {"name": "aside", "kind": "list"}.items() <= finding["keepers"][-1].items()


def test_list_that_no_variable_has(vramtrace, ran_out):
    """The interpreter alone has what a comprehension is making."""
    (finding, *_) = vramtrace.json("oom", ran_out("drafts").path)["findings"]
    assert finding["certainty"] == "proven" and finding["name"] == "(a list without a name)[*]"
    assert {"name": "a list without a name", "root": "unnamed", "kind": "list"}.items() <= finding["keepers"][0].items()


MODELS_OF_A_COMPREHENSION = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8)))

    def forward(self, x):
        return self.layers(x)

def fit(seed):
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        loss = model(torch.randn(64, 1024, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model

models = [fit(seed) for seed in range(200)]
"""


def test_models_of_a_comprehension_are_no_methods(vramtrace, tmp_path):
    """No function was registered to be called later, and nothing is to be unregistered."""
    script = tmp_path / "seeds.py"
    script.write_text(MODELS_OF_A_COMPREHENSION)
    done = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    (finding, *_) = vramtrace.json("oom", done.path)["findings"]
    assert finding["facts"]["says"] == "older_models", finding
    assert finding["advice_facts"][0]["says"] == "older_holder_advice", finding["advice"]


HOLDERS = {
    "renewed": (1, "routes['answer']"),
    "best_of_all": (6, "tried[*]['model']"),
    "schedules": (2, "plots[*].optimizer"),
    "rates": (4, "reached[*][*]"),
    "trials": (15, "Trial.heard[*].__self__.model"),
}


@pytest.mark.parametrize("cause", HOLDERS)
def test_who_holds_older_models(vramtrace, ran_out, cause):
    """Or optimizers: a closure, a list, a schedule by its optimizer; by the census."""
    (finding, *_) = vramtrace.json("oom", ran_out(cause).path)["findings"]
    (holder,) = [facts["holder"] for facts in finding["evidence_facts"] if facts["says"] == "older_holder"]
    nr = finding["facts"].get("models") or finding["facts"]["optimizers"]
    assert (nr, holder, finding["certainty"]) == (*HOLDERS[cause], "proven")


def test_what_was_weighed_is_told(vramtrace, ran_out):
    """With the figure that decided; on the page where more is asked for."""
    told = vramtrace.json("oom", ran_out("limited_leak").path)
    state, aside = told["devices"][0]["state"], {row["cause"]: row["facts"] for row in told["set_aside"]}
    assert aside["fragmentation"]["cached_bytes"] == state["cached_bytes"] < state["asked_bytes"]
    assert "sum" not in aside and "kept_tensors" not in aside
    text = vramtrace.call("oom", "-v", ran_out("limited_leak").path).stdout
    assert "set aside: " in text and "set aside: " not in vramtrace.call("oom", ran_out("limited_leak").path).stdout


def test_larger_limit_is_no_cure_for_a_leak(vramtrace, ran_out):
    """After a limit alone it is."""
    cause, limit = vramtrace.json("oom", ran_out("limited_leak").path)["findings"]
    assert limit["advice"] == [] and "limit_advice" not in [facts["says"] for facts in cause["advice_facts"]]
    (limit,) = vramtrace.json("oom", ran_out("user_limit").path)["findings"]
    assert limit["advice_facts"][0]["says"] == "limit_advice" and 0.25 < limit["advice_facts"][0]["fraction"] < 1


def test_other_optimizers_do_not_replace_a_history(vramtrace, ran_out):
    """Each step of L-BFGS with 8 iterations adds 16 tensors of 32 MiB; nothing keeps them in 8 bits."""
    told = vramtrace.json("oom", ran_out("history").path)
    assert told["findings"][0]["bytes"] % (32 << 20) == 0 and told["findings"][0]["facts"]["each_bytes"] == 512 << 20
    assert not {row["kind"] for row in told["advice"]} & {
        "small_optimizer_state", "bf16_optimizer_state", "optimizer_offload",
    }  # fmt: skip


LETS_GO = {
    "leak": "history.clear()",
    "kept_errors": "errors.clear(), or str(error) in it, not the error",
    "halves": "the end of the except block",
    "circles": "gc.collect(), or a weakref for one of the references",
    "gated": "ctx.save_for_backward(...) in place of ctx.result = ...",
    "usual": "x.detach() in centred.usual in place of x",
    "taps": "handle.remove() on each handle from model.*.register_forward_hook()",
    "rounds": "while True: yield from x, in place of itertools.cycle(x) in others",
    "backlog": "a maxsize, or a smaller one, for the Queue() in answers",
    "weighed": "two iterators made from the source, instead of the two of itertools.tee() (one is counted), which keeps what the slower one has yet to read",
    "fetched_ahead": "submit() a few at a time, as map() of an executor makes all results ahead",
    "hindcasts": "del each Future once its result() was read and submit() only a few ahead, or have its function return only what is used",
    "escorts": "a with block for each use, in place of enter_context() or callback() of open_ways, a stack that stays open",
    "reminders": "cancel() on the handle from call_later() or call_at(), once it is not wanted",
    "watches": "cancel() of each task that is no longer needed, and an exit from its loop",
    "replies": "no list of finished tasks, as each keeps its result; or a coroutine that returns only what is used",
    "farewells": "weakref.finalize() with a function that has no reference to the object itself",
    "trips": "weakref.ref(key) in place of the key in each value of all_trips (each keeps its own key alive)",
    "mocked": "writer.reset_mock(), or a plain stub in its place: a mock keeps all that it is called with",
    "doors": "cancel() on each threading.Timer that is no longer needed, for example before a new one replaces it",
    "damped": "handle.remove() on each handle from registering the hook of table.weight",
    "idle_visits": "cancel() on the handle from call_later() or call_at(), once it is not wanted",
    "swaps": "optimizer.state.pop(x) for each x that it no longer updates",
    "played": "values.append(x.detach()) in place of x",
    "handlers": "a function that does not keep the one it replaces (in its variable before)",
    "records": "log str(x), or x.item() of a single number, in place of x",
    "branches": "tip.stem = None once it is not needed",
    "directions": "basis.append(x.detach()) in place of x",
    "orbits": "x.detach() in spot in place of x",
    "chapters": "book[*].openings.append(x.clone()) in place of x, a view of a larger tensor",
    "herbs": "x.clone() in known in place of x, a view of a larger tensor",
}


@pytest.mark.parametrize("cause", LETS_GO)
def test_line_that_lets_go(vramtrace, ran_out, cause):
    (finding, *_) = vramtrace.json("oom", ran_out(cause).path)["findings"]
    assert finding["let_go_by"] == LETS_GO[cause]


def test_groups_that_an_optimizer_alone_has(vramtrace, ran_out):
    """`oom` calls them older models, which `leaks` does not know of: it says the line."""
    (growth,) = vramtrace.json("leaks", ran_out("heads").path)["growth"]
    said = "del each group in optimizer.param_groups that no model uses, and state.pop(p) for its parameters p"
    assert said in [cause.get("let_go_by") for cause in growth["causes"]]


def test_needing_less_only_puts_a_leak_off(vramtrace, ran_out):
    """64 MiB are kept in each step: so many steps more by what each change saves."""
    told = vramtrace.json("oom", ran_out("leak").path)
    each = told["findings"][0]["facts"]["each_bytes"]
    step = told["devices"][0]["state"]["step"]
    assert told["advice"] and all(row["puts_off_until_step"] == step + row["saved_bytes"] // each for row in told["advice"])
    assert f"to about step {told['advice'][0]['puts_off_until_step']}" in vramtrace.call("oom", ran_out("leak").path).stdout
    assert {row["puts_off_until_step"] for row in vramtrace.json("oom", ran_out("logits_fp32").path)["advice"]} == {None}


def test_sample_is_not_taken_for_the_batch(vramtrace, ran_out):
    """The largest input is one sequence of 64 that are padded together: its length is no number of samples."""
    told = vramtrace.json("oom", ran_out("padding").path)
    (accumulation,) = [row for row in told["advice"] if row["kind"] == "accumulation"]
    action = accumulation["action_facts"]
    assert (action["says"], action["batch"], action["parts"], action["part"]) == ("accumulation_action", 64, 2, 32)
    assert action["site"]["file"].endswith("shapes.py")
    assert "would have fitted instead of" not in json.dumps(told)


def test_rows_that_are_longer_may_be_padding(vramtrace, ran_out):
    """The values of a batch are not recorded: which of its rows were short nobody knows, but they are as many as before."""
    told = vramtrace.json("oom", ran_out("collated").path)["findings"][0]["evidence_facts"]
    assert {"says": "larger_rows_are_longer", "rows": 64, "length": 3000, "length_before": 90} in told


def test_curve_that_does_not_hold_tells_no_batch(vramtrace, ran_out):
    """It would have the step need less than it had got and asked for."""
    told = vramtrace.json("oom", ran_out("distances").path)
    state = told["devices"][0]["state"]
    for facts in told["findings"][0]["evidence_facts"]:
        if facts["says"] in ("shape_is_linear", "shape_is_quadratic") and "needed_bytes" in facts:
            assert facts["needed_bytes"] >= 0.96 * (state["allocated_bytes"] + state["asked_bytes"])
    assert "would have fitted instead of" not in json.dumps(told)


def test_leak_of_two_lines_is_their_sum(vramtrace, ran_out):
    """10,240 rows of 4 KiB are stored in each step: 16 MiB by one line, 24 MiB by the next, which is the one named."""
    found = vramtrace.json("oom", ran_out("stored_pairs").path)["findings"][0]
    assert found["facts"]["each_bytes"] == 40 << 20
    assert found["bytes"] == found["facts"]["steps"] * (40 << 20)
    (of,) = [facts for facts in found["evidence_facts"] if facts["says"] == "kept_by_places"]
    assert of["first_bytes"] + of["second_bytes"] == found["bytes"] and "third_bytes" not in of
    assert {of["first_at"]["file"], of["second_at"]["file"]} == {str(KEPT)}


def test_outputs_that_hooks_keep(vramtrace, ran_out):
    """That the modules whose results stay have hooks, as others have not, is seen from how they are called."""
    told = vramtrace.json("oom", ran_out("hook_outputs").path)["findings"][0]["evidence_facts"]
    assert {"says": "results_of_hooked_module"} in told


def test_figures_are_those_of_the_message(vramtrace, ran_out):
    """Asked, free, allocated and cached are what PyTorch's own error says."""
    recording = ran_out("attention_matrix")
    state = next(d for d in vramtrace.json("oom", recording.path)["devices"])["state"]
    message = vramtrace.call("oom", "--json", "--message", "-", input=recording.stderr, stdin=None)
    told = json.loads(message.stdout)["messages"][-1]
    assert state["capacity_bytes"] == CAPACITY
    for key, name in (("asked_bytes", "requested"), ("free_bytes", "free"), ("allocated_bytes", "allocated"),
                      ("cached_bytes", "unused")):  # fmt: skip
        assert told[name]["low"] <= state[key] <= told[name]["high"], key
    assert state["free_bytes"] < state["refused_bytes"]
    # A new segment, or a cached block: what was asked for is in neither.
    assert state["largest_fit_bytes"] <= max(state["free_bytes"], state["cached_bytes"])
    assert state["largest_fit_bytes"] < state["refused_bytes"]


@pytest.mark.parametrize("cause", FITS)
def test_batch_that_would_have_fitted_fits(vramtrace, ran_out, cause):
    """The step that failed is run again with the batch that `oom` names, and with one that is a tenth larger."""
    fit, dim = FITS[cause]
    told = vramtrace.json("oom", ran_out(cause).path)
    batch = told["devices"][0]["state"]["batch"]
    assert batch["fit"] == fit and batch["r_squared"] > 0.95
    page = vramtrace.call("oom", ran_out(cause).path).stdout
    actions = " ".join(page[page.index("next: ") :].split())
    assert "(saves" not in actions[actions.index("would have fitted instead of") :]  # what changes nothing comes first
    size = batch["would_have_fitted"][dim]
    assert 0 < size < batch["shape"][dim]
    for tried, fits in ((size, True), (size * 11 // 10, False)):
        done = vramtrace.call("run", "-q", "--no-record", "--simulate", "h100", "--simulate-capacity", "4GiB", "--",
                              *python("oom/shapes.py", cause, str(tried)), env=program_environment())  # fmt: skip
        # Not the status: see PYTORCH_ABORTS.
        assert (done.returncode == 0) == fits, (size, tried, done.stderr)
        assert ("OutOfMemoryError" in done.stderr) != fits, (size, tried, done.stderr)


def test_mask_of_attention_stays(vramtrace, tmp_path):
    """What is added to the scores of each layer is needed by fused attention as well."""
    script = tmp_path / "masked.py"
    script.write_text(
        "import torch\n"
        "qkv = torch.nn.ModuleList(torch.nn.Linear(512, 1536, device='cuda') for _ in range(12))\n"
        "for length in (256, 256, 2048):\n"
        "    x = torch.randn(4, length, 512, device='cuda')\n"
        "    mask = torch.randn(4, 1, length, length, device='cuda')\n"
        "    for layer in qkv:\n"
        "        q, k, v = layer(x).view(4, length, 3, 8, 64).permute(2, 0, 3, 1, 4)\n"
        "        x = x + ((q @ k.mT + mask).softmax(-1) @ v).transpose(1, 2).reshape(x.shape)\n"
        "    x.square().mean().backward()\n"
    )
    failed = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "4GiB"))
    assert failed.status == 1 and "OutOfMemoryError" in failed.stderr
    finding = vramtrace.json("oom", failed.path)["findings"][0]
    assert finding["verdict"] == "attention_matrix", finding
    (said,) = finding["advice_facts"]
    assert said["says"] == "attention_advice" and abs(said["masks_bytes"] - (64 << 20)) < 1 << 18
    assert said["saved_bytes"] == finding["bytes"] - said["masks_bytes"]


def run_out(vramtrace, tmp_path, text):
    script = tmp_path / "job.py"
    script.write_text(text)
    failed = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "4GiB"))
    assert failed.status == 1 and "OutOfMemoryError" in failed.stderr
    return failed.path


def test_masks_of_fused_attention_are_no_matrices(vramtrace, tmp_path):
    """It makes one of a bool mask for each layer; to advise fused attention would be no advice."""
    path = run_out(
        vramtrace,
        tmp_path,
        "import torch\n"
        "qkv = torch.nn.ModuleList(torch.nn.Linear(128, 384, device='cuda') for _ in range(12))\n"
        "for length in (256, 256, 256, 4096):\n"
        "    x = torch.randn(8, length, 128, device='cuda')\n"
        "    mask = torch.ones(8, 1, length, length, dtype=torch.bool, device='cuda')\n"
        "    for layer in qkv:\n"
        "        q, k, v = layer(x).view(8, length, 3, 4, 32).permute(2, 0, 3, 1, 4)\n"
        "        x = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)\n"
        "        x = x.transpose(1, 2).reshape(8, length, 128)\n"
        "    x.square().mean().backward()\n",
    )
    finding = vramtrace.json("oom", path)["findings"][0]
    assert finding["verdict"] == "attention_matrix", finding
    assert finding["site"]["line"] == 8
    assert [said["says"] for said in finding["advice_facts"]] == ["attention_masks_advice"]


def test_cross_attention_is_named(vramtrace, ran_out):
    told = vramtrace.json("oom", ran_out("cross_attention").path)["findings"][0]["evidence_facts"]
    assert {"says": "attention_is_cross", "rows": 1024, "columns": 6144} in told


def parameters_of(width, feedforward):
    """Bytes of an attention's projections; of a whole encoder layer."""
    attention = 4 * width * width + 4 * width
    return 4 * attention, 4 * (attention + 2 * width * feedforward + feedforward + width + 4 * width)


def test_parts_of_a_model_are_named(vramtrace, ran_out):
    """Which part made what a step needs: the sum over its modules, less the parameters that are in them."""

    def told(cause, of_part):
        page = vramtrace.call("oom", ran_out(cause).path).stdout
        device = vramtrace.json("oom", ran_out(cause).path)["devices"][0]
        categories = device["state"]["categories"]
        passing = sum(categories[c] for c in ("activation", "input", "temporary", "unknown"))
        assert device["state"]["parts"]["step_bytes"] == passing
        held = sum(m["bytes"] for m in device["modules"] if m["module"] and of_part(m["module"]))
        return page, device["state"]["parts"], held, categories["workspace"]

    page, parts, held, workspace = told("pictures", lambda module: module.startswith("vision_encoder."))
    made = held - 12 * parameters_of(1024, 4096)[1]
    assert parts["module"] == "vision_encoder" and made - workspace <= parts["module_bytes"] <= made
    assert parts["pictures"] == {"count": 22, "height": 224, "width": 224} and not parts["cross_attention_bytes"]
    assert "\n- module vision_encoder took " in page and "for 22 pictures of" in " ".join(page.split())
    page, parts, held, _ = told("documents", lambda module: module.endswith(".multihead_attn"))
    assert parts["cross_attention_bytes"] == held - 6 * parameters_of(512, 1024)[0] > parts["step_bytes"] / 2
    assert parts["pictures"] is None and "\n- cross-attention took " in page


def test_handled_failures_are_listed_not_explained(vramtrace, ran_out):
    recording = ran_out("handled")
    assert recording.status == 0, recording.stderr
    told = vramtrace.json("oom", recording.path)
    failures = told["devices"][0]["failures"]
    assert len(failures) >= 3 and all(failure["handled"] for failure in failures)
    assert told["findings"] == [] and told["devices"][0]["nr_failures"] == len(failures)
    assert vramtrace.call("oom", "--exit-code", recording.path).returncode == 0
    sentence = f"{len(failures)} requests failed, and each time the program went on."
    assert sentence in vramtrace.call("oom", recording.path).stdout
    page = vramtrace.call("report", recording.path).stdout
    assert page.split("\n\n")[1].startswith(sentence + "\n") and "Out of memory" not in page


def test_what_ends_with_an_error_is_explained(vramtrace, tmp_path):
    """Caught, told and gone on from; but the program ends with an error, and asks why."""
    script = tmp_path / "job.py"
    lines = [
        "import sys, torch",
        "def fit(n):",
        "    return torch.cdist(torch.randn(n, 8, device='cuda'), torch.randn(n, 8, device='cuda')).sum()",
        "failed = 0",
        "for n in (4096, 60000, 2048):",
        "    try:",
        "        fit(n)",
        "    except torch.OutOfMemoryError:",
        "        failed += 1",
        "sys.exit(int(sys.argv[1]) if failed else 0)",
    ]
    script.write_text("\n".join(lines))
    for status in (0, 3):
        run = vramtrace.record(tmp_path / f"{status}.vtr", python(script, str(status)), options=("--simulate-capacity", "4GiB"))
        assert run.status == status
        told = vramtrace.json("oom", run.path)
        assert [failure["handled"] for failure in told["devices"][0]["failures"]] == [True]
        assert len(told["findings"]) == (status != 0)
    (found,) = told["findings"]
    assert (found["verdict"], found["site"]["line"]) == ("too_big", 3)
    (said,) = [facts for facts in found["evidence_facts"] if facts["says"] == "went_on_to_error"]
    assert said["status"] == 3


def test_another_thread_does_not_go_on_for_one_that_failed(vramtrace, ran_out):
    """The loop has died; the executor's threads still upload, and fail, and upload."""
    assert vramtrace.json("oom", ran_out("fetched_ahead").path)["findings"][0]["verdict"] == "leak"


def test_last_failure_is_explained(vramtrace, ran_out):
    failures = vramtrace.json("oom", ran_out("handled_then_leak").path)["devices"][0]["failures"]
    assert [failure["handled"] for failure in failures] == [True] * (len(failures) - 1) + [False]
    assert vramtrace.call("oom", "--exit-code", ran_out("handled_then_leak").path).returncode == 1


def test_largest_fit_fits(vramtrace, ran_out):
    """A request as large as what `oom` says would have fitted succeeds there; 2 MiB more do not."""
    recording = ran_out("model_too_big")
    fit = vramtrace.json("oom", recording.path)["devices"][0]["state"]["largest_fit_bytes"]
    source = """
import torch
small = torch.empty(1, device="cuda")
kept = [torch.empty(1 << 28, dtype=torch.uint8, device="cuda") for _ in range(14)]
torch.empty(FIT, dtype=torch.uint8, device="cuda")
"""
    for size, status in ((fit, 0), (fit + (2 << 20), 1)):
        done = vramtrace.call("run", "-q", "--no-record", "--simulate", "h100", "--simulate-capacity", "4GiB", "--",
                              sys.executable, "-c", source.replace("FIT", str(size)), env=program_environment())  # fmt: skip
        assert done.returncode == status, (size, done.stderr)


def test_program_line_after_a_package(vramtrace, tmp_path):
    """Where the line is in an installed package, the program's own that led there is told as well."""
    package, script = tmp_path / "site-packages" / "nets.py", tmp_path / "job.py"
    package.parent.mkdir()
    package.write_text(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return torch.cat([super().forward(x)] * 64)\n"
    )
    script.write_text(
        f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
        "import torch, nets\n"
        "net = nets.Net(1024, 1024).cuda()\n"
        "def predict(x):\n"
        "    return net(x)\n"
        "with torch.no_grad():\n"
        "    predict(torch.randn(65536, 1024, device='cuda'))\n"
    )
    recording = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "4GiB"))
    (finding,) = vramtrace.json("oom", recording.path)["findings"]
    assert (finding["site"]["file"], finding["site"]["line"]) == (str(package), 4)
    assert finding["caller"] == {"file": str(script), "line": 5, "function": "predict"}
    assert "\n  called at " in vramtrace.call("oom", recording.path).stdout
    report = " ".join(vramtrace.call("report", recording.path).stdout.split())
    assert re.search(r"Cause: too_big at \S*nets.py:4 forward, called at \S*job.py:5 predict, ", report), report


def test_package_that_concatenates_is_not_to_write_in_place(vramtrace, tmp_path):
    """What grows by a package's line is the program's to bound; how that line makes it is not."""
    package = tmp_path / "site-packages" / "paths.py"
    package.parent.mkdir()
    package.write_text("import torch\ndef add(path, step):\n    return torch.cat([path, step.flatten()])\n")
    path = run_out(
        vramtrace,
        tmp_path,
        f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
        "import paths, torch\n"
        "net, path = torch.nn.Linear(2048, 2048, device='cuda'), torch.empty(0, device='cuda')\n"
        "while True:\n"
        "    net(torch.randn(64, 2048, device='cuda')).square().mean().backward()\n"
        "    path = paths.add(path, net.weight.detach())\n",
    )
    (found, *_) = vramtrace.json("oom", path)["findings"]
    assert found["cause"] == "growing_tensor" and found["caller"]["line"] == 6, found
    assert [said["says"] for said in found["advice_facts"]] == ["growing_advice"]


def test_program_line_after_a_library(vramtrace, tmp_path):
    """The same of memory that a package takes from the driver, as one that binds it does; the program ends well."""
    package, script = tmp_path / "site-packages" / "arrays.py", tmp_path / "job.py"
    package.parent.mkdir()
    package.write_text(
        "import ctypes\n"
        "def take(size):\n"
        "    pointer = ctypes.c_void_p()\n"
        "    assert ctypes.CDLL(None).cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0\n"
    )
    script.write_text(
        f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
        "import torch, arrays\n"
        "torch.zeros(1, device='cuda')\n"
        "def simulate():\n"
        "    arrays.take(2 << 30)\n"
        "simulate()\n"
        "x = torch.zeros(3 << 28, device='cuda', dtype=torch.bfloat16)\n"
        "try:\n"
        "    x.clone()\n"
        "except torch.OutOfMemoryError:\n"
        "    print('no')\n"
    )
    recording = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "4GiB"))
    (finding,) = vramtrace.json("oom", recording.path)["findings"]
    assert finding["verdict"] == "non_torch"
    assert (finding["site"]["file"], finding["site"]["line"]) == (str(package), 4)
    assert finding["caller"] == {"file": str(script), "line": 5, "function": "simulate"}
    assert recording.status == 0 and finding["evidence_facts"][-1] == {"says": "went_on"}


def test_tensor_beside_the_one_out_of_line(vramtrace, ran_out):
    """What is there was made first; the request, at the line after it, is for as much again."""
    told = vramtrace.json("oom", ran_out("similarities").path)["findings"][0]["evidence_facts"]
    (other,) = [facts for facts in told if facts["says"] == "spike_has_another"]
    assert abs(other["bytes"] / 2**30 - 2.52) < 0.01
    assert (other["site"]["file"], other["site"]["line"]) == (str(MIXED), planted_line("similarities") + 1)


def test_batches_that_a_graph_keeps(vramtrace, ran_out):
    """Observations of 16 MiB each are there for as many calls; they are no cause of their own."""
    told = vramtrace.json("oom", ran_out("rollout").path)["findings"][0]
    assert told["facts"]["says"] == "graphs_without_pass"
    assert {"says": "graphs_have_batches", "batches_bytes": told["facts"]["calls"] * (16 << 20)} in told["evidence_facts"]


def test_nothing_where_memory_sufficed(vramtrace, recorded):
    recording = recorded("mlp.py")
    assert recording.status == 0
    told = vramtrace.json("oom", recording.path)
    assert told["devices"] == [] and told["findings"] == []
    assert "did not run out" in vramtrace.call("oom", recording.path).stdout


STEP = """
import torch
def step(state, size):
    new = torch.empty(size << 28, dtype=torch.uint8, device="cuda")
    more = torch.empty(size << 27, dtype=torch.uint8, device="cuda")  # fails
    new[: more.numel()].copy_(more)
    return new
def main():
    state = None
    for size in (1, 4, 5, 6, 7, 8):
        state = step({argument}, size)
main()
"""


@pytest.mark.parametrize(("argument", "is_told"), [("None", True), ("state", False)])
def test_result_that_the_next_call_is_given_is_needed(vramtrace, tmp_path, argument, is_told):
    """What a call returned the last time is not to be deleted before it where it is the call's argument."""
    script = tmp_path / "step.py"
    script.write_text(STEP.format(argument=argument))
    done = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "4GiB"), env=WITH_NAMES)
    (found, *_) = vramtrace.json("oom", done.path)["findings"]
    assert (found["facts"]["says"] == "called_again") == is_told, found
    assert ("called_again_advice" in [facts["says"] for facts in found["advice_facts"]]) == is_told


def test_document_lists_what_is_found(vramtrace, ran_out):
    """docs/diagnosis.md has the table that is made here; with VRAMTRACE_UPDATE=1 it is written."""
    jobs = [node for script in SCRIPTS for node in ast.parse(script.read_text()).body]
    planted = {node.name: ast.get_docstring(node) for node in jobs if hasattr(node, "name")}
    table = ["| program | what is planted | verdict | cause | what `oom` says, at the planted line |", "|---|---|---|---|---|"]
    for cause in CAUSES:
        found = vramtrace.json("oom", ran_out(cause).path)["findings"][0]
        says = found["evidence"][0] if found["site"]["line"] == planted_line(LINES.get(cause, cause)) else "elsewhere"
        table.append(f"| {cause} | {planted[cause]} | {found['verdict']} | {found['cause']} | {says} |")
    text = DOCUMENT.read_text()
    start, end = text.index("| program |"), text.index("\n\n", text.index("| program |"))
    if os.environ.get("VRAMTRACE_UPDATE"):
        DOCUMENT.write_text(text[:start] + "\n".join(table) + text[end:])
    else:
        assert text[start:end].splitlines() == table


def test_list_that_becomes_one_tensor(vramtrace, ran_out):
    """The list is as large as its tensor: only one of both is needed, and one part of the list."""
    finding = vramtrace.json("oom", ran_out("collected").path)["findings"][0]
    (made,) = [facts for facts in finding["evidence_facts"] if facts["says"] == "list_made"]
    assert (made["site"]["file"], made["site"]["line"]) == (str(MIXED), planted_line("collected", "listed"))
    assert finding["advice_facts"][0] == {"says": "list_advice", "less_bytes": (30 * 8192 + 4000) * 2048 * 4}


@pytest.mark.parametrize("cause", ["fragmentation", "sessions"])
def test_expandable_segments_are_advised_once_and_of_the_failure(vramtrace, ran_out, cause):
    """One figure, and of what was reserved at the failure with its request, not of an earlier peak."""
    path = ran_out(cause).path
    told = vramtrace.json("oom", path)
    (state,) = [device["moments"]["failure"] for device in vramtrace.json("frag", path)["devices"]]
    asked = vramtrace.json("frag", path)["devices"][0]["harm"]["failed"]["asked_bytes"]
    assert vramtrace.call("oom", path).stdout.count("expandable_segments") <= 1
    for row in told["advice"]:
        if row["kind"] == "expandable_segments":
            assert abs(row["peak_bytes"] - state["reserved_bytes"] - asked) < 512


def fails_in_2_gib(vramtrace, tmp_path, *lines):
    script = tmp_path / "job.py"
    script.write_text("import torch\n" + "".join(line + "\n" for line in lines))
    failed = vramtrace.record(tmp_path / "job.vtr", python(script), options=("--simulate-capacity", "2GiB"))
    assert failed.status == 1 and "OutOfMemoryError" in failed.stderr, failed.stderr
    return vramtrace.json("oom", failed.path)["findings"][0]


def test_both_generations_of_a_cache(vramtrace, tmp_path):
    """A cache that is made anew as a whole for each position is there twice: a position takes what one of them does."""
    told = fails_in_2_gib(
        vramtrace, tmp_path,
        "class Layer(torch.nn.Module):",
        "    def forward(self, x, past):",
        "        return [torch.cat([part, x], 2) for part in past]",
        "class Model(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.layers = torch.nn.ModuleList(Layer() for _ in range(6))",
        "    def forward(self, x, past):",
        "        return [layer(x, one) for layer, one in zip(self.layers, past)]",
        "model, x = Model(), torch.zeros(8, 8, 16, 64, device='cuda')",
        "past = [[x, x] for _ in range(6)]",
        "while True:",
        "    past = model(x, past)",
    )
    assert told["verdict"] == "kv_cache"
    each = 12 * 8 * 8 * 64 * 4
    (said,) = [facts for facts in told["evidence_facts"] if facts["says"] in ("cache_is_twice", "cache_is_copied")]
    assert abs(said["each_bytes"] - each) < 0.1 * each
    (said,) = [facts for facts in told["advice_facts"] if facts["says"] == "cache_in_place_advice"]
    longest, free = said["length"], (2048 - 500) << 20  # beside the context
    assert 0.85 * free < longest * each < free


def test_multiple_of_a_width_is_no_vocabulary(vramtrace, tmp_path):
    """What is 32 times as wide as a layer, in 16 bits and then in 32, is no logits: no parameter has so many rows."""
    told = fails_in_2_gib(
        vramtrace, tmp_path,
        "layer = torch.nn.Linear(1024, 1024, device='cuda', dtype=torch.bfloat16)",
        "x = layer(torch.randn(8192, 1024, device='cuda', dtype=torch.bfloat16)).repeat(1, 32)",
        "print(x.float().sum())",
    )
    assert told["verdict"] != "logits_fp32"
