# SPDX-License-Identifier: MIT
"""Native stacks, compared with those of libunwind (or backtrace() where that is not installed)."""
import ctypes
import sys
import threading

import decode
import stackcheck
from stackcheck import HELD, RELEASED, check

MAX = 8192
NATIVE_MAX = 512
OWN_MAX = 4  # frames of the probe itself, which count but are not shown


def compare(what, capture):
    addresses = (ctypes.c_uint64 * MAX)()
    number = ctypes.c_uint32()
    node = capture(addresses, MAX, ctypes.byref(number))
    want = addresses[:number.value]
    got = [(kind, a) for kind, a, b in stackcheck.trace.nodes(node)]
    check(what + ": has frames", len(want) > 3, True)
    want[0] -= 1  # the innermost is an address in the call, not after it
    if len(want) > NATIVE_MAX:
        check(what + ": cut", got[-1], (decode.CUT, 0))
        check(what + ": length", NATIVE_MAX - OWN_MAX <= len(got[:-1]) <= NATIVE_MAX, True)
        got, want = got[:-1], want[:len(got) - 1]
    check(what, got, [(decode.NATIVE, address) for address in want])


def native(what):
    compare(what + ", released", RELEASED.probe_native_twice)
    compare(what + ", held", HELD.probe_native_twice)


def recursion(n):
    if n:
        return recursion(n - 1)
    native("recursion")


def nested(n):
    """One native call of the interpreter per level in every version."""
    if n:
        return sorted([n], key=lambda _: nested(n - 1))
    native("nested")


def generator(n):
    if n:
        yield from generator(n - 1)
    else:
        native("generator")
        yield


def called_from_c(n):
    function = ctypes.CFUNCTYPE(None)
    if n:
        RELEASED.probe_call(function(lambda: called_from_c(n - 1)))
    else:
        native("called from C")


def everything():
    native("plain")
    for n in (1, 30, 300, 301):
        recursion(n)
    for n in (1, 10, 60, 100, 101, 300):
        nested(n)
    list(generator(5))
    called_from_c(3)
    compare("signal handler", RELEASED.probe_native_signal)
    native("plain again")


if __name__ == "__main__":
    sys.setrecursionlimit(5000)
    everything()
    HELD.probe_bench(1, 2000)  # libgcc has compared what it compares of every process: the table is alone now
    check("compared", HELD.probe_native_compared() >= 1000, True)
    everything()
    everything()
    nodes = HELD.probe_count(decode.FRAME)
    for again in range(2):
        everything()
    check("hardly a new stack", HELD.probe_count(decode.FRAME) - nodes < 100, True)
    size = threading.stack_size(64 << 20)
    workers = [threading.Thread(target=everything) for _ in range(4)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    threading.stack_size(size)
    check("method", HELD.probe_native_method(), b"rule table")
    stackcheck.done()
