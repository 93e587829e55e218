# SPDX-License-Identifier: MIT
"""A server of the Model Context Protocol on stdin and stdout: vramtrace's commands as tools for agents (docs/agents.md).

A tool runs the command and returns the JSON document that it prints; what it says on stderr, when it fails, is the
tool's error. Nothing that a program or command prints reaches the server's own stdout, which is the protocol's.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

import anyio  # these two come with mcp, whose absence is told first
from pydantic import Field

from vramtrace import program

DEFAULT_GPU = "h100"  # where there is none
TAIL_BYTES = 8192  # of what a program prints: its end is returned
GRACE_S = 5  # between the signal that asks a program to end and the one that ends it
DRAIN_S = 1  # for output that is on its way when a program has ended; children may hold the pipe open

SKILL = Path(__file__).with_name("SKILL.md")
INSTRUCTIONS = """\
vramtrace records the GPU memory of an unmodified program and explains it: why it ran out of memory, who holds what at \
the peak, what grows, what would make it smaller. `run` records a program, on a simulated GPU where there is no other; \
the other tools read the recording. The loop: run, oom or report, advise, edit the program, run again, check. Sizes in \
results are bytes. The resource vramtrace://skill describes the loop with examples."""

server = MCPServer("vramtrace", instructions=INSTRUCTIONS, log_level="WARNING")
reads = server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))

Document = dict[str, Any]
Recording = Annotated[str, Field(description="path of a recording, as given to run")]
Top = Annotated[int, Field(ge=1, description="how many of the largest to list for each GPU")]
Timeout = Annotated[float, Field(gt=0, description="give up after so many seconds")]


# ---- commands ---------------------------------------------------------------------------------------------------------


class Tail:
    """The last bytes of a stream; all of it without a limit."""

    def __init__(self, limit=None):
        self.limit, self.content, self.is_cut = limit, bytearray(), False

    async def collect(self, stream):
        with suppress(anyio.EndOfStream):
            while True:
                self.content += await stream.receive()
                excess = len(self.content) - self.limit if self.limit else 0
                if excess > 0:
                    del self.content[:excess]
                    self.is_cut = True

    @property
    def text(self):
        return ("[...] " if self.is_cut else "") + self.content.decode(errors="replace")


class Ended:
    """A command that has ended, or that was ended because its time was up."""

    def __init__(self, limit):
        self.stdout, self.stderr = Tail(limit), Tail(limit)
        self.status, self.timed_out = None, False

    def said(self):
        """Its own message, without its name."""
        lines = [line.removeprefix("vramtrace: ") for line in self.stderr.text.strip().splitlines()]
        return "\n".join(lines) or f"vramtrace ended with status {self.status}"


async def call(arguments, timeout_s, directory=None, limit=None):
    """Run `vramtrace ARGUMENTS` in a process group of its own, all of which ends with it or with this call."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    ended = Ended(limit)
    try:
        process = await anyio.open_process(
            [program(), *map(str, arguments)], stdin=subprocess.DEVNULL, cwd=directory, env=environment, start_new_session=True
        )
    except OSError as error:
        raise ToolError(f"cannot run '{error.filename or program()}': {error.strerror}") from error
    async with process, anyio.create_task_group() as group:
        drained = anyio.Event()

        async def collect():
            async with anyio.create_task_group() as both:
                both.start_soon(ended.stdout.collect, process.stdout)
                both.start_soon(ended.stderr.collect, process.stderr)
            drained.set()

        group.start_soon(collect)
        try:
            with anyio.move_on_after(timeout_s) as limited:
                await process.wait()
            ended.timed_out = limited.cancelled_caught
        finally:
            with anyio.CancelScope(shield=True):
                await end(process)
        with anyio.move_on_after(DRAIN_S):
            await drained.wait()
        group.cancel_scope.cancel()
    ended.status = process.returncode
    return ended


async def end(process):
    """Have the whole group end, if it has not: first asked, so that `run` can finish the recording."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with anyio.move_on_after(GRACE_S):
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def ask(command, *arguments, timeout_s, **options):
    """The JSON document of a command. Options that are None or False are left out: top=5 is `--top 5`, all=True `--all`."""
    words = [command, "--json"]
    for name, value in options.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}"] if value is True else [f"--{name.replace('_', '-')}={value}"]
    ended = await call([*words, "--", *arguments], timeout_s)
    if ended.timed_out:
        raise ToolError(f"'{command}' took longer than {timeout_s:g} seconds: a higher timeout_s lets it go on for longer")
    try:
        return json.loads(ended.stdout.text)
    except ValueError:
        raise ToolError(ended.said()) from None


async def has_gpu():
    """Whether a real one answers; a device node alone says nothing."""
    return (await call(["gpu"], timeout_s=60)).status == 0


# ---- tools ------------------------------------------------------------------------------------------------------------


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
async def run(
    command: Annotated[list[str], Field(min_length=1, description='the program and its arguments: ["python", "train.py"]')],
    recording: Annotated[str, Field(description="where to record, such as train.vtr; an older one of that name stays beside it")],
    simulate: Annotated[
        Optional[str],
        Field(description="simulated GPU: h100, 2xa100-80, my-gpu.toml; default: this machine's GPU, or h100 if it has none"),
    ] = None,
    simulate_capacity: Annotated[
        Optional[str], Field(description="memory of the simulated GPU: 24GiB; unlimited: find the peak of what fits no card")
    ] = None,
    directory: Annotated[Optional[str], Field(description="run it in this folder (default: the server's)")] = None,
    timeout_s: Annotated[float, Field(gt=0, description="end it after so many seconds; what was recorded until then stays")] = 600,
) -> Document:
    """Run a program and record its GPU memory.

    Returns the recording's path for the other tools, the program's exit status (128+N: ended by signal N), and the last
    of what it printed. A program that fails is no error of this tool: a recording of it says why.
    """
    if not simulate and not await has_gpu():
        simulate = DEFAULT_GPU
    words = ["run", "-o", recording.replace("%", "%%")]
    words += ["--simulate", simulate] if simulate else []
    words += ["--simulate-capacity", simulate_capacity] if simulate_capacity else []
    ended = await call([*words, "--", *command], timeout_s, directory, TAIL_BYTES)
    path = Path(directory or ".", recording).absolute()
    is_recorded = path.is_dir()
    if ended.status in (125, 126, 127) and not is_recorded:
        raise ToolError(ended.said())
    return {
        "schema": "vramtrace/mcp-run/1",
        "recording": str(path) if is_recorded else None,
        "simulate": simulate,
        "exit_status": 128 - ended.status if ended.status < 0 else ended.status,
        "timed_out": ended.timed_out,
        "stdout": ended.stdout.text,
        "stderr": ended.stderr.text,
    }


@reads
async def report(recording: Recording, timeout_s: Timeout = 60) -> Document:
    """The page to read first: capacity, peaks of each GPU, who holds them, by phase and category; growth; why memory ran out."""
    return await ask("report", recording, timeout_s=timeout_s)


@reads
async def oom(
    recording: Annotated[Optional[str], Field(description="path of a recording, as given to run")] = None,
    message: Annotated[
        Optional[str], Field(description="instead of a recording: the text of PyTorch's out-of-memory error, or a log with it")
    ] = None,
    timeout_s: Timeout = 60,
) -> Document:
    """Why an allocation failed: the cause and the line, what filled the GPU, what would have fitted, what to do."""
    if (recording is None) == (message is None):
        raise ToolError("give either a recording or a message")
    return await ask("oom", *([recording] if recording else []), message=message, timeout_s=timeout_s)


@reads
async def leaks(
    recording: Recording,
    top: Top = 5,
    capacity: Annotated[Optional[str], Field(description="of the GPU, to predict when it runs out: 24GiB")] = None,
    timeout_s: Timeout = 60,
) -> Document:
    """What grows from step to step, at which line, and when memory runs out; apart from that, what was live at the end."""
    return await ask("leaks", recording, top=top, capacity=capacity, timeout_s=timeout_s)


@reads
async def peak(
    recording: Recording,
    by: Annotated[
        Literal["stack", "name", "category", "module", "block", "range"],
        Field(description="sum by call stack, what the program calls it, what it is for, nn.Module, single block, NVTX range"),
    ] = "stack",
    at: Annotated[Optional[str], Field(description="another moment than the peak: 12.5s, 300ms, oom, end")] = None,
    top: Top = 5,
    timeout_s: Timeout = 60,
) -> Document:
    """Who held memory at the peak, or at another moment: bytes, count, shape, dtype and stack of each group."""
    return await ask("peak", recording, by=by, at=at, top=top, timeout_s=timeout_s)


@reads
async def advise(
    recording: Recording,
    all: Annotated[bool, Field(description="all that was found, not only the five that save most")] = False,
    always: Annotated[bool, Field(description="also where memory was not scarce; false: only where it was")] = True,
    timeout_s: Timeout = 60,
) -> Document:
    """What would have made the peak smaller, by how many bytes, at what cost, and at which line to change it."""
    return await ask("advise", recording, all=all, always=always, timeout_s=timeout_s)


@reads
async def whatif(
    recording: Recording,
    conf: Annotated[Optional[str], Field(description="allocator settings as in PYTORCH_CUDA_ALLOC_CONF; none: the recorded ones")] = None,
    capacity: Annotated[Optional[str], Field(description="on a GPU of this size: 40GiB, unlimited; unknown: which is enough")] = None,
    gpu: Annotated[Optional[str], Field(description="on such a GPU: a100-40, l4, h100")] = None,
    search: Annotated[bool, Field(description="try many settings and name the best, instead of conf")] = False,
    batch: Annotated[Optional[int], Field(description="with so many samples in each batch")] = None,
    checkpoint: Annotated[Optional[str], Field(description="with these modules computed again in backward: model.layers.*")] = None,
    without: Annotated[Optional[str], Field(description="without a category, a module, a name or a line: optimizer_state, ema")] = None,
    scale: Annotated[Optional[str], Field(description="with so many bytes of it: activation=0.5")] = None,
    dtype: Annotated[Optional[str], Field(description="with it in another type: optimizer_state=8bit")] = None,
    timeout_s: Timeout = 60,
) -> Document:
    """What the recorded job would reserve under other settings, on another GPU or with other code, and where it would run out."""
    settings = {"conf": conf, "capacity": capacity, "gpu": gpu, "search": search}
    code = {"batch": batch, "checkpoint": checkpoint, "without": without, "scale": scale, "dtype": dtype}
    return await ask("whatif", recording, **settings, **code, timeout_s=timeout_s)


@reads
async def check(
    recording: Recording,
    max_peak: Annotated[Optional[str], Field(description="most that tensors may hold at once: 20GiB")] = None,
    max_reserved: Annotated[Optional[str], Field(description="most that PyTorch may take from the driver: 22GiB")] = None,
    max_growth_per_step: Annotated[Optional[str], Field(description="most by which memory may grow in a step: 1MiB, 0B")] = None,
    no_leaks: Annotated[bool, Field(description="nothing may grow from step to step")] = False,
    no_oom: Annotated[bool, Field(description="it may not fail for want of memory")] = False,
    baseline: Annotated[Optional[str], Field(description="path of a file that `vramtrace baseline` wrote")] = None,
    tolerance: Annotated[Optional[str], Field(description="by how much the baseline may be exceeded: 2%, 64MiB")] = None,
    limits: Annotated[Optional[str], Field(description="path of a file of limits (vramtrace.toml)")] = None,
    timeout_s: Timeout = 60,
) -> Document:
    """Whether a recording keeps within limits, and which lines are to blame where it does not. A broken limit is no error."""
    return await ask(
        "check", recording, max_peak=max_peak, max_reserved=max_reserved, max_growth_per_step=max_growth_per_step,
        no_leaks=no_leaks, no_oom=no_oom, baseline=baseline, tolerance=tolerance, limits=limits, timeout_s=timeout_s,
    )


@reads
async def diff(
    before: Annotated[str, Field(description="path of a recording or baseline")],
    after: Annotated[str, Field(description="path of another")],
    by: Annotated[
        Literal["all", "stack", "phase", "library", "category", "module"], Field(description="compare what was held by")
    ] = "all",
    tolerance: Annotated[Optional[str], Field(description="leave out smaller differences: 2%, 64MiB")] = None,
    top: Annotated[int, Field(ge=1, description="how many stacks that differ most")] = 10,
    timeout_s: Timeout = 60,
) -> Document:
    """What grew or shrank from one recording to another, such as before and after a change."""
    return await ask("diff", before, after, by=by, tolerance=tolerance, top=top, timeout_s=timeout_s)


@server.resource("vramtrace://skill", name="skill", description=INSTRUCTIONS, mime_type="text/markdown")
def skill() -> str:
    return SKILL.read_text()


def serve():
    if sys.stdin.isatty():
        print("vramtrace: an agent starts this server and talks to it on stdin and stdout; Ctrl-C ends it", file=sys.stderr)
    with suppress(KeyboardInterrupt):
        server.run()
