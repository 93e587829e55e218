# SPDX-License-Identifier: MIT
"""python -m vramtrace mcp, asked by the client of the mcp package over stdio, as an agent's program asks it."""

import json
import re
import subprocess
import sys
import time
from contextlib import suppress

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, MCPError, StdioServerParameters, stdio_client

import schemas
from harness import LIMIT_S, TREE, program_environment

TOOLS = {"run", "report", "oom", "leaks", "peak", "advise", "whatif", "check", "diff"}
JOB = """
import os, sys, torch
print("chatter on stdout: {'jsonrpc': '2.0'}", flush=True)
os.system("echo of a child; echo of its stderr >&2")
model = torch.nn.Linear(1024, 1024).cuda()
kept = []
for _ in range(int(sys.argv[1])):
    y = model(torch.randn(4096, 1024, device="cuda"))
    kept.append(y)
    y.sum().backward()
"""
SLOW = """
import ctypes, pathlib, sys, time
driver = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
driver.cuInit(0)
driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
driver.cuCtxSetCurrent(context)
driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4 << 20))
print("it begins", flush=True)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


class Agent:
    """An agent's program: a `client` of one server, which answers all tests, and ask(function, *arguments), which awaits."""

    def __init__(self, site, folder):
        self.folder = folder
        self.server = StdioServerParameters(
            command=sys.executable, args=["-m", "vramtrace", "mcp"], cwd=folder,
            env=program_environment({"PYTHONPATH": str(site)}),
        )

    def call(self, tool, **arguments):
        """The document that a tool returns."""
        result = self.ask(self.client.call_tool, tool, arguments)
        assert not result.is_error, result.content
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    def error(self, tool, **arguments):
        """What a tool says that cannot do it."""
        result = self.ask(self.client.call_tool, tool, arguments)
        assert result.is_error
        return result.content[0].text


@pytest.fixture(scope="module")
def site(vramtrace, tmp_path_factory):
    """The package as an installed one, made of links."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "vramtrace"
    package.mkdir()
    for path in (TREE / "python" / "vramtrace").iterdir():
        (package / path.name).symlink_to(path)
    (package / "native").symlink_to(vramtrace.program.parent)
    return folder


@pytest.fixture(scope="module")
def agent(site, tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    (folder / "job.py").write_text(JOB)
    (folder / "slow.py").write_text(SLOW)
    agent = Agent(site, folder)
    with start_blocking_portal() as portal, open(folder / "server.log", "w") as log:
        with portal.wrap_async_context_manager(Client(stdio_client(agent.server, errlog=log))) as agent.client:
            agent.ask = portal.call
            yield agent


@pytest.fixture(scope="module")
def ran_out(agent):
    """What `run` said of the job on a GPU that is too small, recorded as oom.vtr."""
    return agent.call(
        "run", command=[sys.executable, "job.py", "100"], recording="oom.vtr", simulate="h100", simulate_capacity="1GiB"
    )


@pytest.fixture(scope="module")
def fitted(agent):
    return agent.call("run", command=[sys.executable, "job.py", "4"], recording="fits.vtr", simulate="h100")


def test_lists_tools_with_documented_parameters(agent):
    tools = {tool.name: tool for tool in agent.ask(agent.client.list_tools).tools}
    assert set(tools) == TOOLS
    for tool in tools.values():
        assert len(tool.description) > 40
        for name, parameter in tool.input_schema["properties"].items():
            assert parameter.get("description"), f"{tool.name}: {name}"
        assert tool.annotations.read_only_hint is (True if tool.name != "run" else None)
    assert tools["check"].input_schema["required"] == ["recording"]
    page = (TREE / "docs" / "agents.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) == TOOLS


def test_says_how_to_go_about_it(agent):
    skill = agent.ask(agent.client.read_resource, "vramtrace://skill")
    assert "vramtrace://skill" in agent.client.instructions
    assert skill.contents[0].text == (TREE / "python" / "vramtrace" / "SKILL.md").read_text()


def test_records_a_program_and_keeps_its_output_apart(agent, ran_out):
    assert ran_out["exit_status"] == 1 and not ran_out["timed_out"]
    assert ran_out["recording"] == str(agent.folder / "oom.vtr") and ran_out["simulate"] == "h100"
    assert ran_out["stdout"] == "chatter on stdout: {'jsonrpc': '2.0'}\nof a child\n"
    assert "of its stderr" in ran_out["stderr"] and "OutOfMemoryError" in ran_out["stderr"]


def test_says_why_it_ran_out_of_memory(agent, ran_out, vramtrace):
    document = agent.call("oom", recording="oom.vtr")
    assert document == vramtrace.json("oom", ran_out["recording"]) | {"recording": document["recording"]}
    schemas.check(document)
    assert any(row["site"] and row["site"]["file"].endswith("job.py") for row in document["findings"])


def test_explains_an_error_without_a_recording(agent):
    message = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free."
    document = agent.call("oom", message=message)
    schemas.check(document)
    assert "either" in agent.error("oom") and "either" in agent.error("oom", recording="x", message=message)


def test_checks_limits(agent, fitted):
    kept = agent.call("check", recording="fits.vtr", max_peak="1GiB", no_oom=True)
    broken = agent.call("check", recording="fits.vtr", max_peak="1MiB")
    assert (kept["verdict"], broken["verdict"]) == ("pass", "fail")
    schemas.check(broken)
    assert "has no unit" in agent.error("check", recording="fits.vtr", max_peak="20")


@pytest.mark.parametrize(
    "tool, arguments",
    [
        ("report", {}), ("leaks", {"top": 2}), ("advise", {"all": True}), ("peak", {"by": "category", "at": "end"}),
        ("peak", {"top": 1}), ("whatif", {"conf": "expandable_segments:True"}), ("whatif", {"search": True}),
        ("whatif", {"dtype": "*=bf16", "scale": "*=0.5"}),
    ],
)
def test_documents_are_the_commands_own(agent, fitted, vramtrace, tool, arguments):
    options = [f"--{name}" if value is True else f"--{name}={value}" for name, value in arguments.items()]
    options += ["--always"] if tool == "advise" else []
    document = agent.call(tool, recording="fits.vtr", **arguments)
    assert document == json.loads(vramtrace.call(tool, "--json", *options, "fits.vtr", cwd=agent.folder).stdout)
    schemas.check(document)


def test_compares_two_recordings(agent, fitted, ran_out):
    document = agent.call("diff", before="fits.vtr", after="oom.vtr", by="category")
    schemas.check(document)
    assert document["schema"].startswith("vramtrace/diff/")


def test_recording_that_is_not_there(agent):
    assert agent.error("report", recording="gone.vtr").endswith("cannot open 'gone.vtr': No such file or directory")
    assert "--no-such" in agent.error("report", recording="--no-such")


def test_program_that_is_not_there(agent):
    assert "'./gone'" in agent.error("run", command=["./gone"], recording="gone.vtr", simulate="h100")
    assert "'h1000'" in agent.error("run", command=["true"], recording="gone.vtr", simulate="h1000")
    assert "nowhere" in agent.error("run", command=["true"], recording="gone.vtr", simulate="h100", directory="nowhere")


def test_program_that_uses_no_gpu(agent):
    ran = agent.call("run", command=["sh", "-c", "exit 7"], recording="none.vtr", simulate="h100")
    assert (ran["recording"], ran["exit_status"]) == (None, 7)


def test_wrong_arguments(agent):
    assert "by" in agent.error("peak", recording="fits.vtr", by="planet")
    assert "recording" in agent.error("report")


def test_long_run_ends_in_time(agent):
    """What it recorded until then can be read, and nothing of it goes on."""
    begun = time.monotonic()
    ran = agent.call("run", command=[sys.executable, "slow.py", "begun"], recording="slow.vtr", simulate="h100", timeout_s=10)
    assert time.monotonic() - begun < 120
    assert ran["timed_out"] and ran["stdout"] == "it begins\n" and ran["exit_status"] >= 128
    assert not running("begun")
    assert agent.call("report", recording="slow.vtr")["devices"][0]["driver"]["peak_bytes"] == 4 << 20


def test_output_without_an_end_is_cut(agent):
    script = "while true; do echo 0123456789abcdefghijklmnopqrstuvwxyz; done"
    ran = agent.call("run", command=["sh", "-c", script], recording="loud.vtr", simulate="h100", timeout_s=2)
    assert ran["timed_out"] and ran["stdout"].startswith("[...] ") and len(ran["stdout"]) < 10_000


def test_background_children_do_not_keep_it(agent):
    begun = time.monotonic()
    ran = agent.call("run", command=["sh", "-c", "sleep 1234 & echo done"], recording="child.vtr", simulate="h100")
    assert ran["stdout"] == "done\n" and time.monotonic() - begun < 120
    assert not running("1234")


def test_run_that_nobody_waits_for_ends(agent):
    """A client that takes back its call, and goes on asking."""
    call = {"command": [sys.executable, "slow.py", "left"], "recording": "left.vtr", "simulate": "h100"}

    async def leave(client):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "run", call)
            while not (agent.folder / "left").exists():
                await anyio.sleep(0.1)
            group.cancel_scope.cancel()

    agent.ask(leave, agent.client)
    assert ends("left")
    assert "gone.vtr" in agent.error("report", recording="gone.vtr")


def test_run_ends_with_its_server(agent):
    """A client that leaves while a program runs."""
    call = {"command": [sys.executable, "slow.py", "alone"], "recording": "alone.vtr", "simulate": "h100"}

    async def ask(client):
        with suppress(MCPError):
            await client.call_tool("run", call)

    async def leave():
        async with anyio.create_task_group() as group:
            async with Client(stdio_client(agent.server)) as client:
                group.start_soon(ask, client)
                while not (agent.folder / "alone").exists():
                    await anyio.sleep(0.1)

    anyio.run(leave)
    assert ends("alone")


def ends(word):
    end = time.monotonic() + LIMIT_S
    while running(word) and time.monotonic() < end:
        time.sleep(0.1)
    return not running(word)


def running(word):
    """Whether a process of ours has this word at the end of its command line."""
    listed = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.split()[-1].endswith(word) and not line.startswith("Z")]


def test_only_the_protocol_is_on_stdout(agent):
    """As a client of an older version sends it, line by line."""
    call = {"name": "run", "arguments": {"command": [sys.executable, "job.py", "1"], "recording": "raw.vtr", "simulate": "h100"}}
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    with subprocess.Popen(
        [agent.server.command, *agent.server.args], cwd=agent.folder, env=agent.server.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as server:
        server.stdin.writelines(json.dumps({"jsonrpc": "2.0"} | message) + "\n" for message in messages)
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        rest = server.communicate(timeout=LIMIT_S)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert json.loads(answers[1]["result"]["content"][0]["text"])["exit_status"] == 0
    assert (rest, server.returncode) == (("", ""), 0)


def command(site, *arguments, options=()):
    return subprocess.run(
        [sys.executable, *options, "-m", "vramtrace", "mcp", *arguments], capture_output=True, text=True, timeout=LIMIT_S,
        stdin=subprocess.DEVNULL, env=program_environment({"PYTHONPATH": str(site)}),
    )


def test_without_the_mcp_package(site):
    done = command(site, options=["-S"])
    assert (done.returncode, done.stdout) == (2, "") and "pip install 'mcp>=2' (No module named 'mcp')" in done.stderr


def test_takes_no_arguments(site):
    assert command(site, "-h").stdout.startswith("usage: ")
    done = command(site, "--port", "80")
    assert (done.returncode, done.stdout) == (2, "") and "'--port'" in done.stderr
