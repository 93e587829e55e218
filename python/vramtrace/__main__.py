# SPDX-License-Identifier: MIT
"""python -m vramtrace COMMAND ...: the same as vramtrace COMMAND ..."""

from vramtrace import main

main()
