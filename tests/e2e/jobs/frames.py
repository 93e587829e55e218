# SPDX-License-Identifier: MIT
"""Allocates from many kinds of Python frames and prints the stack that Python itself sees at each.

Runs on CPython 3.8 and later with nothing but ctypes. Each allocation has a size of its own; a JSON line per
allocation holds it and the frames, innermost first, as [file, line, names].
"""

import ctypes
import json
import sys
import threading

cuda = ctypes.CDLL(None)
UNIT = 1 << 20
lock = threading.Lock()
number = 0


def names(code):
    """What the frame may be called: the plain name, and the qualified one where Python has it."""
    return sorted({code.co_name, getattr(code, "co_qualname", code.co_name)})


def stack(frame):
    """The frame and its callers, innermost first."""
    frames = []
    while frame:
        frames.append([frame.f_code.co_filename, frame.f_lineno, names(frame.f_code)])
        frame = frame.f_back
    return frames


def allocate():
    """One block, one line of output. Both look at the stack from the same source line."""
    global number
    with lock:
        number += 1
        size = number * UNIT
    block = ctypes.c_void_p()
    frames, status = stack(sys._getframe()), cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size))
    assert status == 0
    print(json.dumps({"size": size, "frames": frames, "thread": threading.current_thread().name}), flush=True)


def recursive(depth):
    if depth:
        return recursive(depth - 1)
    return allocate()


def generator():
    allocate()
    yield
    allocate()


class Thing:
    def method(self):
        (lambda: allocate())()

    @staticmethod
    def static():
        allocate()

    @property
    def value(self):
        return allocate()

    def __init__(self):
        allocate()

    def __enter__(self):
        allocate()

    def __exit__(self, *_):
        allocate()


async def coroutine():
    allocate()


def run_coroutine():
    try:
        coroutine().send(None)
    except StopIteration:
        pass


def many_lines(
    first,
    second,
):
    return (
        first,
        allocate(),
        second,
    )


def in_handler():
    try:
        raise KeyError("x")
    except KeyError:
        allocate()
    finally:
        allocate()


allocate()
recursive(40)
list(generator())
thing = Thing()
thing.method()
thing.static()
thing.value
with thing:
    allocate()
run_coroutine()
many_lines(1, 2)
in_handler()
sorted([2, 1], key=lambda _: allocate() or 0)
[allocate() for _ in range(2)]
exec(compile("def made():\n\n    allocate()\nmade()", "made-up.py", "exec"))
worker = threading.Thread(target=recursive, args=(3,), name="worker")
worker.start()
worker.join()
