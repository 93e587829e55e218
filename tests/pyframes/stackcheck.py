# SPDX-License-Identifier: MIT
"""What the programs of this folder share: the probe library and one way to check a stack.

A program is started with PYFRAMES_LIBRARY naming the probe and ends by calling done(): "N checks, M bad"
and exit status 1 if any was.
"""
import ctypes
import os
import sys
import threading

import decode

PATH = os.environ["PYFRAMES_LIBRARY"]
RELEASED = ctypes.CDLL(PATH)  # the GIL is released around every call
HELD = ctypes.PyDLL(PATH)     # the GIL is kept
trace = decode.Trace(HELD)
for library in (RELEASED, HELD):
    library.probe_support.restype = ctypes.c_char_p
    library.probe_native_method.restype = ctypes.c_char_p
    library.probe_bench.restype = ctypes.c_double
    for name in ("python", "python_later", "python_foreign", "native", "native_twice", "native_signal",
                 "native_compared", "capsule_stack", "count"):
        getattr(library, "probe_" + name).restype = ctypes.c_uint32
HELD.probe_start()

checks = 0
bad = []

if sys.version_info >= (3, 11):
    def name_of(code):
        return code.co_qualname
else:
    def name_of(code):
        return code.co_name


def readable(text):
    """What a trace holds of a text: lone surrogates are replaced."""
    return "".join("\ufffd" if 0xd800 <= ord(c) < 0xe000 else c for c in text)


def expected(skip=1):
    """Python's own view of the caller's stack."""
    frame, frames = sys._getframe(skip), []
    while frame:
        code = frame.f_code
        frames.append((readable(code.co_filename), readable(name_of(code)), frame.f_lineno))
        frame = frame.f_back
    return frames


def check(what, got, want):
    global checks
    checks += 1
    if got == want:
        return
    bad.append(what)
    if len(bad) > 20:
        return
    print("MISMATCH %s" % what)
    if not isinstance(got, list) or not isinstance(want, list):
        print("    got %r, want %r" % (got, want))
        return
    print("    got %d frames, want %d" % (len(got), len(want)))
    differing = [i for i in range(min(len(got), len(want))) if got[i] != want[i]]
    for i in differing[:5]:
        print("    frame %d: got %r, want %r" % (i, got[i], want[i]))


def stack_of(number):
    """A stack without frames of this module; None if there is none."""
    return trace.stack(number) if number > decode.NO_PYTHON else None


def here(what):
    """Compare the caller's stack, with the GIL released and held."""
    check(what + ", released", stack_of(RELEASED.probe_python()), expected())
    check(what + ", held", stack_of(HELD.probe_python()), expected())


def thread_failed(args):
    check("thread", "%s: %s" % (args.exc_type.__name__, args.exc_value), "")


threading.excepthook = thread_failed


def done():
    print("%d checks, %d bad" % (checks, len(bad)))
    sys.stdout.flush()
    sys.exit(1 if bad else 0)
