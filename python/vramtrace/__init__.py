# SPDX-License-Identifier: MIT
"""Where did the GPU memory go? The vramtrace command, as a Python package carries it."""

import os
import sys
from pathlib import Path


def program():
    """The path of the vramtrace command; its libraries lie beside it."""
    return str(Path(__file__).parent / "native" / "vramtrace")


def main():
    """Become the vramtrace command, with this program's arguments."""
    try:
        os.execv(program(), ["vramtrace", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"vramtrace: cannot run '{program()}': {error.strerror}; is the package whole, and for this machine?")
