# SPDX-License-Identifier: MIT
"""The Python package as users have it: installed by pip into an environment of its own, this one's PyTorch in reach."""

import subprocess
import sys
import sysconfig

from harness import LIMIT_S, TREE, program_environment

XDIST = "pytest-xdist==3.8.0"


class Package:
    """An environment that has the package; `build` is the folder that `make package` has filled."""

    def __init__(self, build, folder):
        self.python = folder / "env" / "bin" / "python"
        self.folder = folder
        self.call(sys.executable, "-m", "venv", folder / "env", check=True)
        site = self.call(self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", check=True).stdout
        self.site = folder / "env" / site.strip()
        (self.site / "tests-environment.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.pip("install", TREE, "--config-settings", f"build={build}", XDIST)

    def call(self, *command, **options):
        options = {"capture_output": True, "text": True, "timeout": LIMIT_S, "stdin": subprocess.DEVNULL} | options
        return subprocess.run(list(map(str, command)), **({"env": program_environment()} | options))

    def pip(self, command, *arguments):
        done = self.call(self.python, "-m", "pip", "-q", "--disable-pip-version-check", command, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def vramtrace(self, *arguments, **options):
        return self.call(self.python, "-m", "vramtrace", *arguments, **options)
