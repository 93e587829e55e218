# SPDX-License-Identifier: MIT
"""Where did the GPU memory go? The vramtrace command, as a Python package carries it."""

import os
import sys
from pathlib import Path

MCP_USAGE = "usage: python -m vramtrace mcp\n\nServe vramtrace's commands to agents, by the Model Context Protocol on stdin and stdout."


def program():
    """The path of the vramtrace command; its libraries lie beside it."""
    return str(Path(__file__).parent / "native" / "vramtrace")


def main():
    """Become the vramtrace command, with this program's arguments; `mcp` alone is a program in Python."""
    if sys.argv[1:2] == ["mcp"]:
        sys.exit(serve_mcp(sys.argv[2:]))
    try:
        os.execv(program(), ["vramtrace", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"vramtrace: cannot run '{program()}': {error.strerror}; is the package whole, and for this machine?")


def serve_mcp(arguments):
    """The server of vramtrace/mcp_server.py. Returns the exit status."""
    if arguments in (["-h"], ["--help"]):
        print(MCP_USAGE)
        return 0
    if arguments:
        print(f"vramtrace: 'mcp' takes no arguments, not '{arguments[0]}'", file=sys.stderr)
        return 2
    try:
        from vramtrace.mcp_server import serve
    except ImportError as error:
        print(f"vramtrace: 'mcp' needs the Python package mcp, 2 or newer: pip install 'mcp>=2' ({error})", file=sys.stderr)
        return 2
    serve()
    return 0
