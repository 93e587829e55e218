# SPDX-License-Identifier: MIT
"""examples/ci: what each runs, run here in a repository: a change that doubles an activation is refused, with its line."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
import yaml
from harness import EXAMPLES, LIMIT_S, program_environment

CI = EXAMPLES / "ci"
SCRIPT = '''\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(512, 2048)
        self.down = nn.Linear(2048, 512)

    def forward(self, x):
        y = torch.relu(self.up(x))
        return x + self.down(y)


model = nn.Sequential(*(Block() for _ in range(3))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(8):
    model(torch.randn(8192, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
'''
OLD = "y = torch.relu(self.up(x))"
NEW = "y = torch.relu(self.up(x)) * torch.sigmoid(self.up(x))"  # both factors are kept for backward
BLAMED = 1 + SCRIPT[: SCRIPT.index(OLD)].count("\n")


class Project:
    """A git repository with train.py and what it takes to judge changes of it."""

    def __init__(self, vramtrace, path):
        self.path = path
        tools = path.parent / "bin"
        tools.mkdir()
        (tools / "vramtrace").symlink_to(vramtrace.program)
        (tools / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (tools / "python").chmod(0o755)
        self.environment = program_environment({"PATH": f"{tools}:{os.environ['PATH']}"})
        path.mkdir()
        shutil.copy(CI / "vramtrace.toml", path)
        self.write(SCRIPT)
        for command in ("git init -q", f"{CI}/pre-merge.sh --update python train.py", "git add ."):
            assert self.shell(command).returncode == 0

    def write(self, script):
        (self.path / "train.py").write_text(script)
        shutil.rmtree(self.path / "train.vtr", ignore_errors=True)

    def shell(self, command, **variables):
        """As the runners of GitHub and GitLab run a step: a failing line ends it."""
        return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=self.path, capture_output=True, text=True,
                              env=self.environment | variables, timeout=LIMIT_S, stdin=subprocess.DEVNULL)  # fmt: skip


@pytest.fixture(scope="module")
def project(vramtrace, tmp_path_factory):
    return Project(vramtrace, tmp_path_factory.mktemp("ci") / "project")


@pytest.fixture(params=[SCRIPT, SCRIPT.replace(OLD, NEW)], ids=["unchanged", "doubled"])
def change(project, request):
    project.write(request.param)
    return request.param


def test_pre_merge_script(project, change):
    done = project.shell(f"{CI}/pre-merge.sh python train.py")
    assert done.returncode == (change != SCRIPT), done.stdout + done.stderr
    assert done.stdout.startswith("pass: " if change == SCRIPT else "fail: ")
    assert (f"allocated at train.py:{BLAMED} in Block.forward" in done.stdout) == (change != SCRIPT)


def test_pre_merge_script_and_a_broken_program(project):
    project.write("raise SystemExit('no data')")
    done = project.shell(f"{CI}/pre-merge.sh python train.py")
    assert done.returncode == 2 and "no data" in done.stderr
    project.write("import torch\ntorch.empty(1 << 40, device='cuda')")
    done = project.shell(f"{CI}/pre-merge.sh python train.py")
    assert done.returncode == 1, done.stdout + done.stderr


def test_github_workflow(project, change, tmp_path):
    (job,) = yaml.safe_load((CI / "github-actions.yml").read_text())["jobs"].values()
    steps = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    assert list(steps) == ["Install", "Record", "Judge", "Summarize"]
    summary = tmp_path / "summary.md"
    assert project.shell(steps["Record"]).returncode == 0
    judged = project.shell(steps["Judge"])
    assert project.shell(steps["Summarize"], GITHUB_STEP_SUMMARY=str(summary)).returncode == 0
    assert judged.returncode == (change != SCRIPT), judged.stdout + judged.stderr
    assert (f"::error file=train.py,line={BLAMED}," in judged.stdout) == (change != SCRIPT)
    assert (f"train.py:{BLAMED}" in summary.read_text()) == (change != SCRIPT)


def test_gitlab_job(project, change):
    job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["gpu-memory"]
    done = project.shell("\n".join(job["script"]))
    assert done.returncode == (change != SCRIPT), done.stdout + done.stderr
    report = project.path / job["artifacts"]["reports"]["junit"]
    failures = [failure.text for failure in ElementTree.parse(report).iter("failure")]
    assert bool(failures) == (change != SCRIPT)
    assert all(f"train.py:{BLAMED}" in text for text in failures[:1])
