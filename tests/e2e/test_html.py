# SPDX-License-Identifier: MIT
"""`html`: the page in a real browser, offline; its figures against the JSON documents, its keys, and bad input."""

import base64
import gzip
import json
import os
import pty
import re
import shutil
import subprocess
import sys

import pytest
from harness import TREE, WITH_NAMES, program_environment
from shared_runs import once, shared

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE_MAX = 5 << 20
READY = "html[data-ready]"

# Keeps an activation of each step until memory runs out.
LEAK = """
import torch
from torch import nn

def main():
    model, history = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda(), []
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(400):
        x = torch.randn(4096 * (1 + step % 4), 512, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(torch.zeros(4 << 20, device="cuda"))

main()
"""
DRIVER_ONLY = """
import ctypes
driver, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
driver.cuInit(0)
driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
driver.cuCtxSetCurrent(context)
assert driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(3 << 30)) == 0
"""


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, without a window and without a network."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        pytest.skip("no browser: install chromium, or let root run `make setup`")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        with_network = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield with_network
        with_network.close()


class Opened:
    """A page, and what the browser had to complain about."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(READY, timeout=60_000)

    def text(self, selector):
        return self.page.inner_text(selector)

    def close(self):
        """Nothing was complained of, and nothing was asked for but the file itself and what it holds."""
        self.context.close()
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture
def open_page(browser):
    opened = []

    def open_one(path, **options):
        opened.append(Opened(browser, path, **options))
        return opened[-1]

    yield open_one
    for page in opened:
        page.close()


@pytest.fixture(scope="session")
def leak(vramtrace, tmp_path_factory):
    """A job that ran out of memory, with its page, its source in it."""

    def make(folder):
        (folder / "leak.py").write_text(LEAK)
        options = ("--simulate-capacity", "4GiB")
        job = vramtrace.record(folder / "leak.vtr", [sys.executable, folder / "leak.py"], options=options, env=WITH_NAMES)
        done = vramtrace.call("html", "--with-source", job.path, "-o", folder / "leak.html")
        assert done.returncode == 0, done.stderr
        return job

    return once(shared(tmp_path_factory), ("html", "leak"), make)


def page_of(job):
    return job.path.parent / "leak.html"


def documents_in(path):
    """What a page is drawn from."""
    packed = re.search(r'<script type="application/gzip" id="data">([A-Za-z0-9+/=]*)</script>', path.read_text())[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def human(size):
    """As the commands print bytes."""
    units = ("KiB", "MiB", "GiB", "TiB")
    value, unit = float(size), -1
    while value >= 1023.5 and unit < 3:
        value, unit = value / 1024, unit + 1
    return f"{size} B" if unit < 0 else f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {units[unit]}"


def sums(column):
    total = 0
    return [total := total + step for step in column]


def line_of(text):
    """The line of the leak's source with this text."""
    return next(number for number, line in enumerate(LEAK.splitlines(), 1) if text in line)


# ---- the page of a job that ran out of memory --------------------------------------------------------------------------


def test_a_stranger_finds_the_line(leak, open_page):
    """The first that is seen: why, which line, who keeps it, what to do, with its source."""
    opened = open_page(page_of(leak))
    verdict = opened.text("#verdict .card >> nth=0")
    assert verdict.startswith("Out of memory: tensors are kept from step to step")
    assert f"leak.py:{line_of('history.append')}" in opened.text("#culprit")
    assert "history[*]" in verdict and "history.clear()" in verdict
    assert "history.append" in opened.text("#verdict .source .hit >> nth=0")


def test_the_page_says_what_the_commands_say(vramtrace, leak, open_page):
    opened, oom = open_page(page_of(leak)), vramtrace.json("oom", leak.path)
    verdict, finding, state = opened.text("#verdict"), oom["findings"][0], oom["devices"][0]["state"]
    for sentence in finding["evidence"] + finding["advice"]:
        assert sentence in verdict
    shown = opened.page.eval_on_selector_all("#verdict dd[data-bytes]", "all => all.map(d => [d.dataset.bytes, d.textContent])")
    keys = ("asked", "capacity", "reserved", "allocated", "cached", "outside", "free", "largest_fit")
    assert [int(size) for size, _ in shown] == [state[f"{key}_bytes"] for key in keys]
    assert all(text == human(int(size)) for size, text in shown)
    for row in vramtrace.json("advise", leak.path)["advice"]:
        assert row["action"] in verdict


def test_documents_are_those_of_the_commands(vramtrace, leak):
    documents = documents_in(page_of(leak))["recordings"][0]["documents"]
    for name, command in {"report": ["report"], "oom": ["oom"], "leaks": ["leaks"], "by_name": ["peak", "--by", "name"]}.items():
        assert documents[name] == vramtrace.json(command[0], *command[1:], leak.path)


def test_the_picture_adds_up(vramtrace, leak):
    """Peak, categories and blocks: each moment's sums are what was allocated, to the byte."""
    device = documents_in(page_of(leak))["recordings"][0]["documents"]["picture"]["devices"][0]
    report = vramtrace.whole_report(leak.path)["devices"][0]
    allocated, reserved = (sums(device["points"][f"{key}_bytes"]) for key in ("allocated", "reserved"))
    assert (max(allocated), max(reserved)) == (report["tensor"]["peak_bytes"], report["reserved"]["peak_bytes"])
    assert allocated == [sum(column) for column in zip(*map(sums, device["points"]["categories"]))]
    times, blocks = sums(device["points"]["time_ns"]), {key: sums(column) for key, column in device["blocks"].items()}
    lives = list(zip(blocks["birth_ns"], blocks["death_ns"], blocks["bytes"]))
    assert device["nr_blocks"] == len(lives) == report["tensor"]["allocs"]
    failed = times.index(device["failures"][0]["time_ns"])
    assert sum(size for birth, death, size in lives if birth <= times[failed] and not 0 <= death <= times[failed]) == allocated[failed]


def test_libraries_add_up_to_what_the_driver_gave(leak, open_page):
    device = documents_in(page_of(leak))["recordings"][0]["documents"]["picture"]["devices"][0]
    owners = [sums(owner["bytes"]) for owner in device["points"]["owners"]]
    assert [sum(column) for column in zip(*owners)] == sums(device["points"]["driver_bytes"])
    opened = open_page(page_of(leak))
    opened.page.select_option("#colour-by", "library")
    assert "torch" in opened.text("#legend") and "context, code, other processes" in opened.text("#legend")


def alive(time, begin, end):
    return begin <= time and not 0 <= end <= time


def test_every_block_lies_in_a_piece(vramtrace, recorded, tmp_path, open_page):
    """Large ones by their address, small ones by the piece that they name: together, all that was allocated."""
    page = write(vramtrace, tmp_path, recorded("alloc_loop.py", "--limit", "20000").path)
    device = documents_in(page)["recordings"][0]["documents"]["picture"]["devices"][0]
    tables = ({key: sums(device[table][key]) for key in device[table] if isinstance(device[table][key], list) and
               key not in ("categories", "owners")} for table in ("points", "driver", "blocks", "summed"))
    points, pieces, blocks, summed = tables
    taken = list(zip(*(pieces[key] for key in ("from_ns", "until_ns", "address", "bytes"))))
    nr_summed = 0
    for point, time in enumerate(summed["time_ns"]):
        live = [(address, address + size) for begin, end, address, size in taken if alive(time, begin, end)]
        one_by_one = sum(
            size
            for address, size, birth, death in zip(*(blocks[key] for key in ("address", "bytes", "birth_ns", "death_ns")))
            if alive(time, birth, death) and any(first <= address and address + size <= last for first, last in live)
        )
        together = sum(
            size
            for first, last, size, piece in zip(*(summed[key] for key in ("first", "last", "bytes", "piece")))
            if first <= point < last and piece and alive(time, *taken[piece - 1][:2])
        )
        assert one_by_one + together == points["allocated_bytes"][points["time_ns"].index(time)]
        nr_summed += together > 0
    assert nr_summed
    assert f"of which blocks fill {human(max(points['allocated_bytes']))}" in open_page(page).text("#map-line")


def test_click_zoom_search_and_keys(leak, open_page):
    opened = open_page(page_of(leak))
    page, canvas = opened.page, opened.page.locator("#series")
    at_failure = opened.text("#readout")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] * 0.6, "y": box["height"] * 0.6})
    assert opened.text("#readout") != at_failure
    page.click("#to-failure")
    assert opened.text("#readout") == at_failure

    before = canvas.screenshot()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100)
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(300)
    assert canvas.screenshot() != before
    page.click("#zoom-all")

    canvas.focus()
    page.keyboard.press("ArrowLeft")
    assert opened.text("#readout") != at_failure
    page.keyboard.press("ArrowRight")
    assert opened.text("#readout") == at_failure
    page.keyboard.press("PageUp")
    assert "step" in opened.text("#readout") and opened.text("#readout") != at_failure
    for key in ("+", "+", "-", "Shift+ArrowRight", "Home", "End"):
        page.keyboard.press(key)

    page.click("#to-failure")
    page.fill("#search", "history")
    assert opened.text("#found").startswith("1 group")
    row = page.locator("#groups tbody tr").first
    assert "history" in row.inner_text()
    row.locator("button.open").press("Enter")
    assert "leak.py" in page.locator("#groups tr.more").first.inner_text()
    page.select_option("#group-by", "category")
    page.fill("#search", "")
    assert "optimizer state" in opened.text("#groups")
    for by in ("name", "stack", "module", "shape", "phase", "library", "category"):
        page.select_option("#colour-by", by)


def test_blocks_are_reached_by_key(leak, open_page):
    opened = open_page(page_of(leak))
    opened.page.focus("#lives")
    opened.page.keyboard.press("ArrowDown")
    assert "Block allocated at" in opened.text("#block")
    first = opened.text("#block")
    for _ in range(5):
        opened.page.keyboard.press("ArrowDown")
    assert opened.text("#block") != first


def test_icicle_and_growth(leak, open_page):
    opened = open_page(page_of(leak))
    assert f"leak.py:{line_of('history.append')}" in opened.text("#growth")
    opened.page.select_option("#icicle-by", "stack")
    opened.page.locator("#icicle button").first.focus()
    opened.page.keyboard.press("Enter")
    assert "leak.py" in opened.text("#crumbs")
    opened.page.select_option("#icicle-by", "shape")
    assert "float32 [4194304]" in opened.text("#icicle")
    opened.page.select_option("#group-by", "shape")
    opened.page.fill("#search", "[4194304]")
    assert opened.text("#found").startswith("1 group")


def test_no_element_without_a_name(leak, open_page):
    """What a screen reader has to read: buttons, choices and pictures have names; headings go down one by one."""
    opened = open_page(page_of(leak))
    nameless = opened.page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas, table")].filter((e) => e.offsetParent && !(
            e.textContent.trim() || e.ariaLabel || e.getAttribute("aria-label") || e.labels?.length || e.getAttribute("aria-describedby"))
            ).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    levels = opened.page.eval_on_selector_all("h1, h2, h3", "all => all.filter(h => h.offsetParent).map(h => +h.tagName[1])")
    assert levels[0] == 1 and all(after - before <= 1 for before, after in zip(levels, levels[1:]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_and_in_both_schemes(leak, open_page, scheme):
    opened = open_page(page_of(leak), color_scheme=scheme)
    dark = opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 26)"
    assert dark == (scheme == "dark")
    opened.page.set_viewport_size({"width": 360, "height": 700})
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360


# ---- other recordings --------------------------------------------------------------------------------------------------


def write(vramtrace, tmp_path, *recordings):
    done = vramtrace.call("html", *recordings, "-o", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").stat().st_size < PAGE_MAX
    return tmp_path / "page.html"


def test_a_healthy_job(vramtrace, recorded, tmp_path, open_page):
    job = recorded("gpt.py")
    opened = open_page(write(vramtrace, tmp_path, job.path))
    device = vramtrace.json("report", job.path)["devices"][0]
    assert opened.text("#verdict-title").startswith(f"It fitted: {human(device['reserved']['peak_bytes'])}")
    assert human(device["tensor"]["peak_bytes"]) in opened.text("#verdict .evidence")


def test_blockers_are_told(vramtrace, recorded, tmp_path, open_page):
    """A block of 2 MiB keeps the rest of each segment: as `frag` counts them."""
    job = recorded("frag.py", "failure")
    opened = open_page(write(vramtrace, tmp_path, job.path))
    opened.page.click("#to-failure")
    (device,) = vramtrace.json("frag", job.path)["devices"]
    (blocker,) = device["moments"]["failure"]["blockers"]
    assert f"{human(blocker['kept_bytes'])} is kept free by few blocks in {blocker['segments']} pieces." in opened.text("#map-line")


def test_several_gpus(vramtrace, tmp_path, open_page):
    code = "import torch; a = torch.zeros(1 << 28, device='cuda:0'); b = torch.zeros(1 << 26, device='cuda:1')"
    job = vramtrace.record(tmp_path / "two.vtr", [sys.executable, "-c", code], gpu="2xh100")
    opened = open_page(write(vramtrace, tmp_path, job.path))
    assert opened.page.locator("#ranks .small button").count() == 2
    assert "1.00 GiB" in opened.text("#verdict .evidence")  # the fuller one is shown first
    opened.page.locator("#ranks .small button").nth(1).click()
    assert "256 MiB" in opened.text("#verdict .evidence")


def test_compare(vramtrace, recorded, leak, tmp_path, open_page):
    opened = open_page(write(vramtrace, tmp_path, recorded("gpt.py").path, leak.path))
    diff = vramtrace.json("diff", recorded("gpt.py").path, leak.path)
    assert diff["devices"] and "What differs" in opened.text("#compare")
    assert opened.page.locator("#compare canvas").count() == 2
    for fact in diff["differences"]:  # the GPUs' sizes differ
        assert f"{fact['what']}: {fact['before']} before, {fact['after']} after" in opened.text("#compare")
    assert diff["differences"]


def test_what_is_taken_beside_pytorch(vramtrace, tmp_path, open_page):
    """Memory that the program takes from the driver itself: a line of its own, and a layer of its own by library."""
    code = DRIVER_ONLY + "import torch; a = torch.zeros(1 << 28, device='cuda')\n"
    job = vramtrace.record(tmp_path / "beside.vtr", [sys.executable, "-c", code])
    opened = open_page(write(vramtrace, tmp_path, job.path))
    assert "taken from the driver" in opened.text("#legend")
    opened.page.select_option("#colour-by", "library")
    assert {"torch", "program"} <= set(opened.text("#legend").split("\n"))
    assert "PyTorch's have 1.00 GiB" in opened.text("#map-line") and " of 4.00 GiB taken" in opened.text("#map-line")


def test_a_program_without_pytorch(vramtrace, tmp_path, open_page):
    """What the driver gave stands for the blocks."""
    job = vramtrace.record(tmp_path / "plain.vtr", [sys.executable, "-c", DRIVER_ONLY])
    opened = open_page(write(vramtrace, tmp_path, job.path))
    assert "3.00 GiB" in opened.text("#groups") or "3.00 GiB" in opened.text("#moment-line")


def test_without_source_there_is_none(vramtrace, leak, tmp_path):
    page = write(vramtrace, tmp_path, leak.path)
    text = json.dumps(documents_in(page))
    assert "optimizer.zero_grad()" not in text and '"sources": null' in text
    assert "optimizer.zero_grad()" in json.dumps(documents_in(page_of(leak)))


def test_run_writes_it(vramtrace, tmp_path):
    code = "import torch; torch.zeros(1 << 20, device='cuda')"
    page = tmp_path / "run.html"
    job = vramtrace.record(tmp_path / "r.vtr", [sys.executable, "-c", code + "; raise SystemExit(7)"], options=("--html", page))
    assert (job.status, page.exists()) == (7, True)
    assert documents_in(page)["recordings"][0]["path"].endswith("r.vtr")


# ---- bad input ---------------------------------------------------------------------------------------------------------


def golden(name):
    return TREE / "tests" / "golden" / "v1" / f"{name}.vtr"


@pytest.mark.parametrize("name", ["damaged", "killed", "kept", "graphs", "virtual-memory", "pools", "refused"])
def test_old_and_broken_recordings(vramtrace, tmp_path, name, open_page):
    done = vramtrace.call("html", golden(name), "-o", tmp_path / "page.html")
    assert done.returncode == vramtrace.call("report", golden(name)).returncode
    opened = open_page(tmp_path / "page.html")
    if name == "damaged":
        assert "damaged" in opened.text("#trouble")


def test_a_recording_that_grows(vramtrace, tmp_path, open_page):
    code = "import sys, torch; a = torch.zeros(1 << 28, device='cuda'); print('up', flush=True); sys.stdin.read()"
    argv = [str(word) for word in vramtrace.run_argv(tmp_path / "live.vtr", [sys.executable, "-c", code])]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=program_environment()) as job:
        assert job.stdout.readline() == "up\n"
        opened = open_page(write(vramtrace, tmp_path, tmp_path / "live.vtr"))
        job.communicate()
    assert "still running" in opened.text("#subtitle")
    assert "1.00 GiB" in opened.text("#verdict")


def test_unwritable(vramtrace, leak, tmp_path):
    for output in (tmp_path / "no" / "page.html", tmp_path):
        done = vramtrace.call("html", leak.path, "-o", output)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"vramtrace: cannot write '{output}': ")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_no_half_file(vramtrace, leak, tmp_path):
    """A limit on files stands for a disk that is full: the old page stays as it was."""
    (tmp_path / "page.html").write_text("old")
    command = f"ulimit -f 64; trap '' XFSZ; exec '{vramtrace.program}' html '{leak.path}' -o '{tmp_path}/page.html'"
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2 and "cannot write" in done.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"page.html": "old"}


def test_a_terminal_is_refused(vramtrace, leak):
    leader, terminal = pty.openpty()
    done = subprocess.run([vramtrace.program, "html", leak.path], stdout=terminal, stderr=subprocess.PIPE, text=True)
    os.close(terminal)
    os.close(leader)
    assert done.returncode == 2 and "a page does not belong on a terminal" in done.stderr


def test_nothing_to_read(vramtrace, tmp_path):
    done = vramtrace.call("html", tmp_path / "no.vtr", "-o", tmp_path / "page.html")
    assert done.returncode == 2 and "no.vtr" in done.stderr
    assert not (tmp_path / "page.html").exists()
