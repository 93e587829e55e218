# SPDX-License-Identifier: MIT
"""Time of one capture at depth 30, printed; nothing is asserted, machines differ."""
import sys

from stackcheck import HELD


def capture():
    return HELD.probe_bench(0, 100000), HELD.probe_bench(1, 20000)


def chain(depth):
    """That many different functions, each calling the next."""
    scope = {"f0": capture}
    for i in range(1, depth):
        exec("def f%d():\n    return f%d()\n" % (i, i - 1), scope)
    return scope["f%d" % (depth - 1)]


if __name__ == "__main__":
    python, native = chain(30 - 1)()
    print("python %s: depth 30, %.0f ns per Python stack, %.0f ns per native stack" % (
        sys.version.split()[0], python, native))
