# SPDX-License-Identifier: MIT
"""docs/schemas has a schema of every JSON document, which has all of its keys, and no key that is in none."""

import json
import pickle
import re
import shutil
import subprocess
import sys

import pytest
import schemas
from harness import JOBS, TREE, WITH_NAMES, program_environment, python

SENTENCES = TREE / "analyzer" / "findings" / "sentences.def"
GOLDEN = TREE / "tests" / "golden" / "v1"
# Keys that need a GPU, a machine that runs out of its own memory, or a recording that vanishes between two readings.
UNSEEN = {
    "gpu/devices/device", "gpu/devices/name", "gpu/devices/bytes",
    "report/error", "advise/error",
}  # fmt: skip

# A loop that keeps what it need not, until memory runs out; then it is killed, or goes on.
LOOP = """
import collections, os, signal, sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.BatchNorm1d(512), nn.Linear(512, 2048), nn.Linear(2048, 512)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))

def main():
    model, history = Net().cuda(), collections.deque(maxlen=5000)
    optimizer = torch.optim.AdamW(model.parameters())
    pinned = torch.empty(4 << 20, dtype=torch.uint8, pin_memory=True)
    for step in range(200):
        x = torch.randn(256 * (1 + step % 4), 512, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(torch.zeros(4 << 20, device="cuda"))

def survive():
    try:
        torch.empty(1 << 40, device="cuda")
    except torch.OutOfMemoryError:
        pass
    os.kill(os.getpid(), signal.SIGKILL)

survive() if sys.argv[1:] == ["survive"] else main()
"""
STEP = """
import torch
w = torch.ones(1 << 20, device="cuda", requires_grad=True)
(w * w).sum().backward()
"""
FILL = "import sys, torch; torch.empty(int(sys.argv[1]) << 30, device='cuda')"
WAITING = """
import os, sys, torch
kept = torch.ones(1 << 20, device="cuda")
print(os.getpid(), flush=True)
sys.stdin.read()
"""
VISION = {
    "model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064},
    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
                      "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14},
}  # fmt: skip
MESSAGES = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free. "
    "Process 4711 has 3.21 GiB memory in use. Including non-PyTorch memory, this process has 19.37 GiB memory in use. "
    "Of the allocated memory 18.65 GiB is allocated by PyTorch, and 263.90 MiB is reserved by PyTorch but unallocated.",
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.65 GiB total capacity; 20.12 GiB already allocated; "
    "21.00 GiB reserved in total by PyTorch)",
    "no message of PyTorch's",
)


class Documents:
    """What commands print, by schema."""

    def __init__(self, vramtrace):
        self.vramtrace, self.printed, self.commands = vramtrace, {}, set()

    def ask(self, command, *arguments, **options):
        """Run `command --json`, however it ends; what it printed is looked at later."""
        done = self.vramtrace.call(command, "--json", *arguments, **options)
        self.commands.add(command)
        for line in done.stdout.splitlines() if command == "dump" else [done.stdout]:
            document = json.loads(line)
            name = document["schema"].split("/")[1] if "schema" in document else command
            self.printed.setdefault(name, []).append((" ".join(map(str, (command, *arguments))), document))

    def check(self):
        """Each is as its schema says, and says sentences of the table."""
        for name, printed in self.printed.items():
            for command, document in printed:
                try:
                    schemas.check(document, name, whole=True)
                except AssertionError as error:
                    raise AssertionError(f"{command}: {error}") from None
        said = set(re.findall(r'"says": "(\w+)"', json.dumps(self.printed)))
        assert said and said <= set(re.findall(r"^SENTENCE\((\w+),", SENTENCES.read_text(), re.MULTILINE))


READERS = ("report", "oom", "leaks", "frag --points 9", "timeline --points 9", "info", "verify", "advise --always", "dump -v",
           "peak", "peak --by range", "peak --by category", "peak --by module", "peak --by name", "peak --by block",
           "peak --at oom", "html --with-source")  # fmt: skip


def read(documents, recording, readers=READERS):
    for reader in readers:
        documents.ask(*reader.split(), recording)


@pytest.fixture(scope="module")
def of_goldens(vramtrace, tmp_path_factory):
    """Documents of old recordings, and of what needs none."""
    folder, told = tmp_path_factory.mktemp("goldens"), Documents(vramtrace)
    shutil.copytree(GOLDEN, folder, dirs_exist_ok=True)
    for name in ("training", "kept-passes", "ranges", "refused", "named"):
        read(told, folder / f"{name}.vtr")
    for name in ("damaged", "graphs", "limits", "past-hooks", "pools", "virtual-memory"):
        read(told, folder / f"{name}.vtr", ("report", "info", "verify", "dump -v"))
    (folder / "broken.vtr").write_bytes(b"no trace")
    told.ask("dump", "-v", "--limit", "9", folder / "native-stacks.vtr")
    told.ask("info", "--strings", folder / "training.vtr")
    told.ask("verify", "--repair", folder / "clean.vtr", folder / "damaged.vtr")
    told.ask("anonymize", folder / "training.vtr", folder / "shared.vtr")
    (folder / "snapshot.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    told.ask("import", folder / "snapshot.pickle", "-o", folder / "made.vtr")
    told.ask("peak", "--spans", "-", folder / "training.vtr", input=f"0 0 {2**64 - 1} all\n", stdin=None)
    told.ask("estimate", "--parameters", "7B")
    told.ask("gpu")
    for message in MESSAGES:
        told.ask("oom", "--message", message)
    told.ask("leaks", "--series", "-", input="".join(f"{step},{100 + 3 * step} MiB\n" for step in range(60)), stdin=None)
    comparisons(told, folder)
    failures(told, folder)
    return told


def comparisons(told, folder):
    baseline = folder / "baseline.toml"
    done = told.vramtrace.call("baseline", "--force", "-o", baseline, folder / "ranges.vtr")
    assert done.returncode == 0, done.stderr
    told.ask("diff", baseline, folder / "training.vtr")
    told.ask("diff", "--by", "stack", folder / "training.vtr", folder / "named.vtr")
    told.ask("check", "--baseline", baseline, "--force", folder / "training.vtr")
    told.ask("check", "--max-peak", "1KiB", "--no-leaks", "--max-fragmentation", "1%", folder / "training.vtr")


def failures(told, folder):
    """What ends in trouble."""
    told.ask("info", folder / "nowhere.vtr")
    told.ask("info", "--strings", folder / "nowhere.vtr")
    told.ask("verify", folder / "nowhere.vtr")
    told.ask("verify", folder / "broken.vtr")
    told.ask("anonymize", folder / "nowhere.vtr", folder / "no.vtr")
    told.ask("import", folder / "nowhere.pickle", "-o", folder / "no.vtr")
    told.ask("leaks", "--series", "-", input="nothing\n", stdin=None)
    told.ask("max-fit", "--max", "2", "--simulate", "a100-40", "-q", "--", "/bin/sh", "-c", "exit {}")


@pytest.fixture(scope="module")
def of_jobs(vramtrace, tmp_path_factory):
    """Documents of jobs that are run for it."""
    folder, told = tmp_path_factory.mktemp("jobs"), Documents(vramtrace)
    (folder / "loop.py").write_text(LOOP)
    loop, small = [sys.executable, folder / "loop.py"], ("--simulate-capacity", "1GiB")

    def record(name, program, **options):
        return vramtrace.record(folder / f"{name}.vtr", program, **options).path

    named = record("loop", loop, options=small, env=WITH_NAMES)
    read(told, named)
    told.ask("diff", record("unnamed", loop, options=small), named)
    read(told, folder / "unnamed.vtr", ("oom", "report"))
    read(told, record("killed", [*loop, "survive"], options=small), ("oom",))
    read(told, record("graphs", python("leaks/planted.py", "graphs", "8")), ("leaks", "report"))
    read(told, record("pinned", python("leaks/planted.py", "pinned", "8")), ("leaks", f"diff {named}"))
    read(told, record("frag", python("frag.py", "failure")), ("frag --points 9", "whatif --points 3", "whatif --scale *=0.5", "whatif --search", "whatif --capacity unknown", "whatif --capacity 60GiB"))
    read(told, record("pictures", python("oom/shapes.py", "pictures"), options=("--simulate-capacity", "4GiB")), ("oom",))
    ranks = [sys.executable, JOBS / "distributed" / "some_ranks.py", folder, "ddp"]
    read(told, record("ranks", ranks, gpu="4xh100", options=("--ranks", "0")), ("report",))
    repeated = record("repeated", [sys.executable, "-c", STEP], options=("--repeat", "2"))
    (repeated / "host.1.2.77.3.why").write_text("why trace\nerrno 28\nunrecorded 3\nprogram train.py\nlater 1\n")
    read(told, repeated, ("report", "info", "verify"))
    estimates(told, named, folder)
    told.ask("max-fit", "--min", "30", "--max", "40", "--multiple-of", "10", "--simulate", "a100-40", "-q", "--",
             sys.executable, "-c", FILL, "{}", env=program_environment())  # fmt: skip
    census(told, folder)
    return told


def estimates(told, recording, folder):
    (folder / "config.json").write_text(json.dumps(VISION))
    told.ask("estimate", "--config", folder / "config.json", "--capacity", "80GiB", "--against", recording)
    told.ask("estimate", "--parameters", "1M", "--measure", "--", sys.executable, "-c", STEP, env=program_environment())


def census(told, folder):
    argv = told.vramtrace.run_argv(folder / "waiting.vtr", [sys.executable, "-c", WAITING])
    with subprocess.Popen([*map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=program_environment(WITH_NAMES)) as process:  # fmt: skip
        told.ask("names", process.stdout.readline().strip())
        process.communicate()


def commands_with_json(vramtrace):
    names = re.findall(r"^  ([a-z-]+) ", vramtrace.call("help").stdout.split("commands:")[1], re.MULTILINE)
    assert len(names) > 15
    return {name for name in names if "--json" in vramtrace.call(name, "-h").stdout}


def names_in_the_sources():
    """The documents that the sources of the analyzer name, and their versions: {"report": "1", ...}."""
    found = {}
    for path in (TREE / "analyzer").rglob("*.[ch]"):
        found |= dict(re.findall(r'"vramtrace/([a-z-]+)/(\d+)"', path.read_text()))
    return found


def test_schemas_are_valid():
    for path in schemas.FOLDER.glob("*.json"):
        schemas.Draft202012Validator.check_schema(json.loads(path.read_text()))
    for name, schema in schemas.schemas().items():
        for link in schemas.links(schema):
            schemas.registry().resolver(name + schemas.SUFFIX).lookup(link)


def test_every_document_has_a_schema():
    versions = {name: version for name, version in names_in_the_sources().items() if name != "baseline"}  # which is TOML
    titles = {name: schema["title"] for name, schema in schemas.schemas().items() if name not in ("common", "dump")}
    assert titles == {name: f"vramtrace/{name}/{version}" for name, version in versions.items()}


def test_documents_of_goldens(of_goldens):
    of_goldens.check()


def test_documents_of_jobs(of_jobs):
    of_jobs.check()


def test_every_command_and_key_is_seen(vramtrace, of_goldens, of_jobs):
    """A key of a schema that is in no document of this file is a wrong one, or stands in UNSEEN with its reason."""
    assert of_goldens.commands | of_jobs.commands == commands_with_json(vramtrace)
    assert set(of_goldens.printed) | set(of_jobs.printed) == set(schemas.schemas()) - {"common", "picture"}  # which is in html's
    of_goldens.check()
    of_jobs.check()
    unseen = {where for name in schemas.schemas() for key, where in schemas.declared(name).items() if key not in schemas.seen}
    assert not unseen - UNSEEN, "named by a schema, in no document of this test: " + ", ".join(sorted(unseen - UNSEEN))
    assert not UNSEEN - unseen, "not to be listed in UNSEEN: " + ", ".join(sorted(UNSEEN - unseen))
