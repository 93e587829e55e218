# SPDX-License-Identifier: MIT
"""
screenshots.py BUILD: pictures of the page of `html` for docs/: of an example that runs out of memory on a simulated GPU,
light, dark, narrow and as it is printed, each the part that is seen first. Look at them before they are committed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

TREE = Path(__file__).resolve().parent.parent
PICTURES = {
    "light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 2060}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 2060}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 400, "height": 1600}},
    "print": {"color_scheme": "light", "viewport": {"width": 800, "height": 1900}},
}


def record(build, folder):
    program = [sys.executable, "examples/leak_loss_list.py", "--steps", "2000"]
    run = [build / "vramtrace", "run", "-q", "--simulate", "h100", "--simulate-capacity", "1200MiB", "-o", folder / "leak.vtr"]
    subprocess.run([*run, "--", *program], cwd=TREE, stderr=subprocess.DEVNULL)  # it runs out of memory
    page = [build / "vramtrace", "html", "--with-source", folder / "leak.vtr", "-o", folder / "leak.html"]
    subprocess.run(page, cwd=TREE, check=True)


def main():
    build = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        record(build, Path(folder))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, options in PICTURES.items():
            page = browser.new_page(**options)
            page.emulate_media(media="print" if name == "print" else "screen", color_scheme=options["color_scheme"])
            page.goto((Path(folder) / "leak.html").as_uri())
            page.wait_for_selector("html[data-ready]")
            page.wait_for_timeout(500)
            path = TREE / "docs" / "pictures" / f"html-{name}.png"
            page.screenshot(path=path)
            Image.open(path).quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
        browser.close()


os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
main()
