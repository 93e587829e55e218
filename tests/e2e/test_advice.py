# SPDX-License-Identifier: MIT
"""`advise` predicts what each change saves: the same job with that change applied has the peak that was computed."""

import re

import pytest

from harness import JOBS, WITH_NAMES, python

MIB = 1 << 20
QUICK = ("--simulate-values", "off")
WIDE = ("--width", "1024", "--words", "8000", "--batch", "2")
MIDDLING = ("--width", "1024", "--words", "8000", "--batch", "8")
UNEVEN = ("--width", "640", "--words", "24000", "--layers", "8", "--batch", "4", "--length", "384")
# Of each kind: a job that has reason for it, and the habits of the same job with the advice applied.
KINDS = {
    "checkpointing": (["--batch", "16"], ["checkpoint"]),
    "checkpointing of layers that end with a norm": (["--batch", "16", "post"], ["checkpoint"]),
    "checkpointing of layers with experts": (["--batch", "16", "experts"], ["checkpoint"]),
    "chunked_loss": (["--words", "50304", "--layers", "3"], ["chunks"]),
    "small_optimizer_state": ([*WIDE], ["state8"]),
    "small_optimizer_state for foreach": ([*WIDE, "foreach"], ["state8"]),
    "small_optimizer_state of momentum": ([*WIDE, "momentum"], ["momentum8"]),
    "set_to_none": ([*MIDDLING, "keep-gradients"], []),
    "set_to_none late": ([*MIDDLING, "late-zero"], []),
    "set_to_none of uneven blocks": ([*UNEVEN, "side", "keep-gradients"], []),
    "accumulation": (["--batch", "32"], ["accumulate"]),
    "accumulation of an odd batch": (["--width", "1024", "--words", "8000", "--layers", "4", "--batch", "7"], ["accumulate"]),
    # Whose parameters have the sizes of an expert's tokens a census knows: the run is long enough for one of the whole model.
    "accumulation of experts' tokens": (["--batch", "16", "--steps", "150", "experts"], ["accumulate"]),
    "accumulation under autocast": (["--batch", "32", "autocast"], ["accumulate"]),
    "chunked_loss of kept logits": (["--words", "50304", "--layers", "3", "keep-logits"], ["chunks"]),
    "chunked_loss of words after the sample": (["--words", "50304", "--layers", "3", "words-second"], ["chunks"]),
    "free_before": (["--words", "50304", "--layers", "12", "keep-logits"], []),
    "free_before of what a step ends with": (["--steps", "2", "table"], ["drop-table"]),
    "bf16_optimizer_state": ([*WIDE], ["state16"]),
    "duplicated_storage": ([*WIDE, "load"], ["load-host"]),
    # Long enough for a census that sees the whole of it.
    "duplicated_storage of a whole checkpoint": ([*WIDE, "--steps", "150", "load", "averaged"], ["load-host"]),
    "duplicated_storage clone": (["--batch", "16", "side", "clone"], []),
    "activation_offload": (["--batch", "16"], ["host"]),
    "optimizer_offload": ([*WIDE], ["offload"]),
    "sharded_optimizer": ([*WIDE], ["shard"]),
    "sharded_optimizer of a large matrix": (["--words", "50304", "--layers", "3"], ["shard"]),
    "sharded_parameters": ([*WIDE], ["fsdp"]),
    "sharded_parameters of activations": (["--batch", "16", "--words", "30000"], ["fsdp"]),
    "sharded_parameters of frozen layers": ([*WIDE, "frozen"], ["fsdp"]),
    "sharded_parameters instead of DDP": ([*MIDDLING, "ddp"], ["fsdp"]),
}
HABITS = {"keep-gradients", "late-zero", "keep-logits", "load", "clone", "ddp", "foreach", "words-second", "table", "momentum"}
RANKS = {"shard", "fsdp", "ddp"}


@pytest.fixture(scope="module")
def ran(vramtrace, tmp_path_factory):
    """ran(*arguments): advice.py with them, recorded once."""
    made = {}

    def run(*arguments, env=None):
        if (arguments, bool(env)) not in made:
            path = tmp_path_factory.mktemp("advice") / "job.vtr"
            alone = ("--ranks", "0") if RANKS & set(arguments) else ()
            made[arguments, bool(env)] = vramtrace.record(
                path, python("advice.py", *arguments), gpu="8xh100" if alone else "h100", options=(*QUICK, *alone),
                env=WITH_NAMES | (env or {}),
            )
            assert made[arguments, bool(env)].status == 0, made[arguments, bool(env)].stderr
        return made[arguments, bool(env)]

    return run


def peak_of(recording):
    return recording.ledger["allocated_bytes.all.peak"]


def advice_of(vramtrace, recording, *options):
    return {row["kind"]: row for row in vramtrace.json("advise", "--all", *options, recording.path)["advice"]}


@pytest.mark.parametrize("name", KINDS)
def test_saving_is_what_the_change_saves(vramtrace, ran, name):
    before, habits = KINDS[name]
    after = [word for word in before if word not in HABITS] + habits
    recording = ran(*before)
    advice = advice_of(vramtrace, recording, "--always")
    print({kind: row["saved_bytes"] / MIB for kind, row in advice.items()})
    kind = name.split()[0]
    assert kind in advice
    row = advice[kind]
    assert row["peak_bytes"] == peak_of(recording)
    saved = peak_of(recording) - peak_of(ran(*after))
    print(f"predicted {row['saved_bytes'] / MIB:.1f} MiB, measured {saved / MIB:.1f} MiB")
    assert abs(row["saved_bytes"] - saved) <= 0.05 * saved


def test_line_is_the_planted_one(vramtrace, ran):
    """Checkpointing names the line that calls the layers, chunks the one that computes logits."""
    lines = (JOBS / "advice.py").read_text().splitlines()
    advice = advice_of(vramtrace, ran(*KINDS["checkpointing"][0]), "--always")
    assert "for layer in self.layers" in lines[advice["checkpointing"]["site"]["line"] - 2]
    advice = advice_of(vramtrace, ran(*KINDS["chunked_loss"][0]), "--always")
    assert "self.head(self.norm(x))" in lines[advice["chunked_loss"]["site"]["line"] - 1]


def test_state_of_momentum_stays_that(vramtrace, ran):
    """Another algorithm's optimizer would keep twice as much."""
    advice = advice_of(vramtrace, ran(*WIDE, "momentum"), "--always")
    assert "bitsandbytes.optim.SGD8bit " in advice["small_optimizer_state"]["action"]
    assert "bf16_optimizer_state" not in advice


def test_two_layers_are_not_checkpointed(vramtrace, ran):
    advice = advice_of(vramtrace, ran("--layers", "2", "--batch", "16"), "--always")
    assert advice and "checkpointing" not in advice


def test_wide_outputs_are_no_logits(vramtrace, ran):
    """As many features as words, but no loss over classes."""
    advice = advice_of(vramtrace, ran("--words", "50304", "--layers", "3", "squares"), "--always")
    assert advice and "chunked_loss" not in advice


def test_labels_are_no_words(vramtrace, ran):
    """As many labels as words, each of them there or not: nothing that is fused takes them."""
    advice = advice_of(vramtrace, ran("--words", "20000", "--layers", "3", "labels"), "--always")
    assert advice and "chunked_loss" not in advice


def test_what_a_package_calls(vramtrace, tmp_path):
    """Nothing is to be changed within transformers: the model is told, or called otherwise."""
    script = tmp_path / "packaged.py"
    script.write_text(
        "import torch\n"
        "from transformers import GPT2Config, GPT2LMHeadModel\n"
        "model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=20000)).cuda()\n"
        "for _ in range(2):\n"
        "    ids = torch.randint(0, 20000, (8, 512)).cuda()\n"
        "    model(ids, labels=ids).loss.backward()\n"
        "    model.zero_grad()\n"
    )
    recording = vramtrace.record(tmp_path / "job.vtr", python(script), options=QUICK, env=WITH_NAMES)
    assert recording.status == 0, recording.stderr
    advice = advice_of(vramtrace, recording, "--always")
    assert advice["checkpointing"]["action"].startswith("once the model is made, model.gradient_checkpointing_enable()")
    assert advice["chunked_loss"]["action"].startswith("call the model without its output layer")


def test_what_is_done_is_not_advised(vramtrace, ran):
    kinds = "checkpointing", "chunked_loss", "small_optimizer_state", "bf16_optimizer_state", "set_to_none", "free_before"
    for name in (*kinds, "duplicated_storage", "activation_offload", "sharded_optimizer", "sharded_parameters"):
        before, habits = KINDS[name]
        after = [word for word in before if word not in HABITS] + habits
        assert name not in advice_of(vramtrace, ran(*after), "--always"), name


def test_healthy_job_gets_none(vramtrace, ran):
    recording = ran(*KINDS["checkpointing"][0])
    assert vramtrace.json("advise", recording.path)["advice"] == []
    assert vramtrace.json("report", recording.path)["advice"] == []
    assert "Memory was not scarce" in vramtrace.call("advise", recording.path).stdout


def test_order_and_size(vramtrace, ran):
    """At most five, largest first, none below 2% of the peak, each with a figure and a cost; more GPUs after all others."""
    rows = vramtrace.json("advise", "--always", ran(*KINDS["chunked_loss"][0]).path)["advice"]
    saved = [row["saved_bytes"] for row in rows if row["kind"] not in (*LAST, *OF_RANKS)]
    assert 1 < len(rows) <= 5 and saved == sorted(saved, reverse=True)
    for row in rows:
        assert row["saved_bytes"] == row["peak_bytes"] - row["after_bytes"] >= 0.02 * row["peak_bytes"]
        assert row["title"] and row["action"] and row["cost"] and any(c.isdigit() for c in row["evidence"])
    kinds = [*advice_of(vramtrace, ran(*KINDS["chunked_loss"][0]), "--always")]
    assert set(kinds[-2:]) == set(OF_RANKS) and set(LAST) & set(kinds) <= set(kinds[-4:-2])


def test_expandable_segments(vramtrace, ran):
    job = (*KINDS["checkpointing"][0], "checkpoint")
    before, after = ran(*job), ran(*job, env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    row = advice_of(vramtrace, before, "--always")["expandable_segments"]
    saved = before.ledger["reserved_bytes.all.peak"] - after.ledger["reserved_bytes.all.peak"]
    print(f"predicted {row['saved_bytes'] / MIB:.1f} MiB, measured {saved / MIB:.1f} MiB")
    assert row["of"] == "reserved" and abs(row["saved_bytes"] - saved) <= 0.05 * saved


def run_in_3_gib(vramtrace, path, arguments):
    return vramtrace.record(path, python("advice.py", *arguments), options=(*QUICK, "--simulate-capacity", "3GiB"), env=WITH_NAMES)


def test_gradients_that_go_late_are_no_zeros(vramtrace, tmp_path):
    """Memory ran out before zero_grad() came: that they were made anew in each step tells what it would have done."""
    script = tmp_path / "late.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(8))).cuda()\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "for step in range(6):\n"
        "    loss = model(torch.randn(16384 if step == 5 else 4096, 4096, device='cuda')).sum()\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    failed = vramtrace.record(tmp_path / "job.vtr", python(script), options=(*QUICK, "--simulate-capacity", "4GiB"), env=WITH_NAMES)
    assert failed.status == 1 and "OutOfMemoryError" in failed.stderr
    row = advice_of(vramtrace, failed)["set_to_none"]
    assert "right after optimizer.step(), before the next forward" in row["action"]


def test_what_is_there_twice_comes_first(vramtrace, tmp_path):
    """It costs nothing, and is enough for what was asked for: that more can be had for something does not matter."""
    arguments = ("--batch", "32", "--width", "768", "--steps", "1", "load", "averaged")
    failed = run_in_3_gib(vramtrace, tmp_path / "failed.vtr", arguments)
    assert failed.status == 1 and "OutOfMemoryError" in failed.stderr
    first, second, *_ = vramtrace.json("advise", "--all", failed.path)["advice"]
    line = 1 + (JOBS / "advice.py").read_text().partition("torch.load(")[0].count("\n")
    assert first["title"] == f"free weights, loaded at advice.py:{line}"
    assert first["saved_bytes"] < second["saved_bytes"]


FITS = {
    "smaller_batch after a loss": (["--words", "50304", "--layers", "3"], "--batch"),
    "smaller_batch": (["--batch", "48"], "--batch"),
    "shorter_sequence": (["--batch", "16", "--length", "1000", "matrix"], "--length"),
}


LAST = {"smaller_batch", "shorter_sequence"}
OF_RANKS = "sharded_optimizer", "sharded_parameters"


@pytest.mark.parametrize("kind", FITS)
def test_what_fits(vramtrace, ran, tmp_path, kind):
    """A job that ran out in its first step is told of a batch, and of a length, with which it runs through."""
    before, option = FITS[kind]
    kind = kind.split()[0]
    failed = run_in_3_gib(vramtrace, tmp_path / "failed.vtr", before)
    assert failed.status == 1 and "OutOfMemoryError" in failed.stderr
    advice = advice_of(vramtrace, failed)
    assert {row["kind"] for row in list(advice.values())[-2:]} == LAST, "they come last"
    row = advice[kind]
    assert row["enough"] and not row["keeps_result"]
    fits, given = re.search(r"(\d+) instead of (\d+)", row["title"]).groups()
    assert given == (before[before.index(option) + 1] if option in before else "8")
    after = [fits if word == given else word for word in before] if option in before else [*before, option, fits]
    fitted = run_in_3_gib(vramtrace, tmp_path / "fitted.vtr", after)
    assert fitted.status == 0, fitted.stderr
    saved = peak_of(ran(*before)) - peak_of(fitted)
    print(f"{row['title']}: predicted {row['saved_bytes'] / MIB:.1f} MiB, measured {saved / MIB:.1f} MiB")
    assert abs(row["saved_bytes"] - saved) <= 0.05 * saved


def test_no_logits_where_steps_made_none(vramtrace, tmp_path):
    """A classifier of texts that has had its steps: what a long batch needs is not reckoned with logits over its words."""
    script = tmp_path / "classifier.py"
    script.write_text(
        "import torch\n"
        "words, head = torch.nn.Embedding(30000, 256).cuda(), torch.nn.Linear(256, 20).cuda()\n"
        "optimizer = torch.optim.SGD([*words.parameters(), *head.parameters()], 0.1)\n"
        "for length in (64, 64, 64, 64, 32768):\n"
        "    ids = torch.randint(0, 30000, (64, length)).cuda()\n"
        "    head((2 * words(ids)).relu().mean(1)).square().mean().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    failed = vramtrace.record(tmp_path / "failed.vtr", python(script), options=("--simulate-capacity", "5GiB"), env=WITH_NAMES)
    whole = vramtrace.record(tmp_path / "whole.vtr", python(script), env=WITH_NAMES)
    assert (failed.status, whole.status) == (1, 0), whole.stderr
    peak = vramtrace.json("report", whole.path)["devices"][0]["tensor"]["peak_bytes"]
    rows = advice_of(vramtrace, failed)
    before = [rows[kind]["peak_bytes"] for kind in ("accumulation", "smaller_batch", "shorter_sequence")]
    assert max(before) <= peak, (before, peak)


def test_layers_that_are_not_alike_tell_only_the_most_that_fits(vramtrace, tmp_path):
    """Stages that halve what they keep, out of memory in the first forward: what comes after is not reckoned with."""
    script = tmp_path / "stages.py"
    script.write_text(
        "import sys, torch\n"
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        stage = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU())\n"
        "        self.stages = nn.ModuleList(stage(16 << max(i - 1, 0), 16 << i) for i in range(5))\n"
        "        self.head = nn.Linear(256, 10)\n"
        "    def forward(self, x):\n"
        "        for stage in self.stages:\n"
        "            x = nn.functional.avg_pool2d(stage(x), 2)\n"
        "        return self.head(x.mean((2, 3)))\n"
        "net = Net().cuda()\n"
        "optimizer = torch.optim.AdamW(net.parameters())\n"
        "net(torch.randn(int(sys.argv[1]), 16, 256, 256).cuda()).square().mean().backward()\n"
        "optimizer.step()\n"
    )

    def run(name, batch, *options):
        return vramtrace.record(tmp_path / name, python(script, batch), options=(*QUICK, *options), env=WITH_NAMES)

    failed = run("failed.vtr", 128, "--simulate-capacity", "3GiB")
    whole = run("whole.vtr", 128)
    assert (failed.status, whole.status) == (1, 0), whole.stderr
    rows = advice_of(vramtrace, failed)
    peak = vramtrace.json("report", whole.path)["devices"][0]["tensor"]["peak_bytes"]
    assert max(rows[kind]["peak_bytes"] for kind in ("accumulation", "smaller_batch")) <= peak
    most = int(re.match(r"batch at most (\d+) instead of 128 ", rows["smaller_batch"]["title"])[1])
    assert rows["smaller_batch"]["facts"]["says"] == "larger_does_not_fit"
    larger = run("larger.vtr", most + 1, "--simulate-capacity", "3GiB")
    assert larger.status == 1 and "OutOfMemoryError" in larger.stderr


def test_batch_is_that_of_padded_sequences(vramtrace, tmp_path):
    """Sequences that were put together on the device are the samples, not the longest one's rows, nor those of a bank."""
    script = tmp_path / "padded.py"
    script.write_text(
        "import torch\n"
        "from torch import nn\n"
        "encoder = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 64)).cuda()\n"
        "optimizer = torch.optim.AdamW(encoder.parameters())\n"
        "bank = torch.zeros(0, 64, device='cuda')\n"
        "for longest in (200, 200, 200, 40000):\n"
        "    sequences = [torch.randn(n, 64, device='cuda') for n in (*range(50, 73), longest)]\n"
        "    batch = nn.utils.rnn.pad_sequence(sequences, batch_first=True)\n"
        "    encoder(batch).square().mean().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "    bank = torch.cat([bank, torch.randn(50000, 64, device='cuda')])\n"
    )
    options = (*QUICK, "--simulate-capacity", "3GiB")
    failed = vramtrace.record(tmp_path / "failed.vtr", python(script), options=options, env=WITH_NAMES)
    assert failed.status == 1 and "OutOfMemoryError" in failed.stderr
    rows = advice_of(vramtrace, failed)
    assert re.match(r"batch at most \d+ instead of 24 at padded.py:8", rows["smaller_batch"]["title"])
    assert re.match(r"length at most \d+ instead of 40000 at padded.py:8", rows["shorter_sequence"]["title"])
    assert re.match(r"\d+ x batch \d+, accumulated at padded.py:8", rows["accumulation"]["title"])


def test_table_beside_the_model_is_no_batch(vramtrace, tmp_path):
    """A table that each step makes anew is a multiple of the batch long, by chance: smaller batches leave it as it is."""
    script = tmp_path / "table.py"
    script.write_text(
        "import torch\n"
        "from torch import nn\n"
        "net = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()\n"
        "optimizer = torch.optim.AdamW(net.parameters())\n"
        "for _ in range(4):\n"
        "    net(torch.randn(256, 1024, device='cuda')).square().mean().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
        "    table = torch.randn(64 << 20, device='cuda')\n"
    )
    recording = vramtrace.record(tmp_path / "table.vtr", python(script), options=QUICK, env=WITH_NAMES)
    told = vramtrace.json("advise", "--always", recording.path)["advice"]
    assert told and not [row for row in told if row["kind"] in ("accumulation", "smaller_batch")], told


def test_table_of_positions_is_no_batch(vramtrace, tmp_path):
    """A table made beside the model is as long as many batches' tokens, by chance: half the batch leaves it as it is."""
    script = tmp_path / "positions.py"
    script.write_text(
        "import torch\n"
        "from torch import nn\n"
        "net = nn.Sequential(nn.Embedding(1000, 256), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).cuda()\n"
        "for _ in range(2):\n"
        "    words = torch.randint(0, 1000, (64, 64), device='cuda')\n"
        "    table = torch.arange(32 << 20, device='cuda')\n"
        "    net(words).square().mean().backward()\n"
        "    net.zero_grad()\n"
    )
    recording = vramtrace.record(tmp_path / "job.vtr", python(script), options=QUICK, env=WITH_NAMES)
    told = advice_of(vramtrace, recording, "--always")
    assert told.get("accumulation", {"saved_bytes": 0})["saved_bytes"] < 32 * MIB


def test_pages_of_a_failure(vramtrace, tmp_path):
    """oom and report have the same advice as advise, and keep to the screen."""
    failed = run_in_3_gib(vramtrace, tmp_path / "failed.vtr", FITS["smaller_batch"][0])
    rows = vramtrace.json("oom", failed.path)["advice"]
    assert rows == vramtrace.json("advise", failed.path)["advice"] == vramtrace.json("report", failed.path)["advice"]
    assert all(len(line) <= 80 for line in vramtrace.call("advise", failed.path).stdout.splitlines())
    for command in ("oom", "report"):
        lines = vramtrace.call(command, failed.path).stdout.splitlines()
        assert len(lines) <= 24 and all(len(line) <= 80 for line in lines if str(failed.path) not in line)
        assert any(f"{rows[0]['title']} (saves " in line for line in lines), lines
