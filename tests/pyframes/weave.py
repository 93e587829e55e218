# SPDX-License-Identifier: MIT
"""Python and native frames in one order: chains of Python functions, C functions that call back, and both in turns."""
import ctypes
import functools
import platform
import random

import decode
import stackcheck
from stackcheck import HELD, check

EVAL = b"_PyEval_EvalFrameDefault"
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
libc = ctypes.CDLL(None)
libgcc = ctypes.CDLL("libgcc_s.so.1")
libgcc._Unwind_Find_FDE.restype = ctypes.c_void_p


class Symbol(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def symbol(address):
    found = Symbol()
    return libc.dladdr(ctypes.c_void_p(address), ctypes.byref(found)) and found.name


class Bases(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("data", ctypes.c_void_p), ("function", ctypes.c_void_p)]


def piece(address):
    """The start of the piece of code around the address: functions are compiled into one or more, each with one FDE."""
    bases = Bases()
    return libgcc._Unwind_Find_FDE(ctypes.c_void_p(address), ctypes.byref(bases)) and bases.function


def loop_pieces():
    """The interpreter's loop and, where a profile had it split, what its conditional jumps lead to (x86-64)."""
    start = ctypes.cast(ctypes.pythonapi[EVAL.decode()], ctypes.c_void_p).value
    found, at = {start}, start
    while platform.machine() == "x86_64" and piece(at) == start:
        operation, condition = ctypes.string_at(at, 2)
        if operation == 0x0f and condition & 0xf0 == 0x80:
            found.add(piece(at + 6 + ctypes.c_int32.from_address(at + 2).value))
        at += 1
    return found - {None}


def in_loop(address):
    """A name, if the address has one, else the piece: the second half of a function has no name of its own."""
    name = symbol(address)
    return name == EVAL if name else piece(address) in LOOP


def woven(python, native):
    """As the format describes it: names of Python functions and of native ones, innermost first."""
    frames, order = list(stackcheck.trace.nodes(python)), []
    for kind, address, runs in stackcheck.trace.nodes(native):
        check("only the interpreter's loop runs Python", runs == 1, in_loop(address))
        while runs:
            kind, code, _ = frames.pop(0)
            order.append(stackcheck.trace.code(code)[2])
            runs = kind != decode.ENTRY
        order.append(symbol(address))
    check("every Python frame has a native one", frames, [])
    return order


LOOP = loop_pieces()


def capture():
    """What of the woven stack is known beforehand: our functions and the C library's bsearch."""
    python = HELD.probe_python()
    order = woven(python, HELD.probe_native())
    names = [name for name in order if name == b"bsearch" or isinstance(name, str) and "step_" in name]
    check("order", names, expected[::-1])


expected = []


def call(steps):
    """Goes on with the steps that are left, each noted as it is made."""
    if not steps:
        return capture()
    return WAYS[steps[0]](steps[1:])


def step_plain(steps):
    call(steps)


def step_other(steps):
    call(steps)


def step_generator(steps):
    call(steps)
    yield


def step_key(steps):
    call(steps)
    return 0


class step_class:
    def __init__(self, steps):
        call(steps)


def noted(names, function):
    """One more step, inwards and back."""
    def way(steps):
        expected.extend(names)
        function(steps)
        del expected[-len(names):]
    return way


def through_bsearch(steps):
    def step_compare(a, b):
        call(steps)
        return 0

    numbers = (ctypes.c_int * 2)()
    libc.bsearch(numbers, numbers, 2, 4, COMPARE(step_compare))


NAMES = {"step_compare": "through_bsearch.<locals>.step_compare", "step_init": "step_class.__init__"}
if not hasattr(call.__code__, "co_qualname"):
    NAMES = {"step_compare": "step_compare", "step_init": None}  # a method's name does not tell its class

WAYS = {
    "plain": noted(["step_plain"], step_plain),
    "other": noted(["step_other"], step_other),
    "generator": noted(["step_generator"], lambda steps: list(step_generator(steps))),
    "sorted": noted(["step_key"], lambda steps: sorted([1], key=functools.partial(lambda s, _: step_key(s), steps))),
    "map": noted(["step_key"], lambda steps: list(map(step_key, [steps]))),
    "bsearch": noted([b"bsearch", NAMES["step_compare"]], through_bsearch),
}
if NAMES["step_init"]:
    WAYS["class"] = noted([NAMES["step_init"]], step_class)


if __name__ == "__main__":
    rnd = random.Random(5)
    for way in WAYS:
        call([way])
        call([way, way])
    for _ in range(300):
        call([rnd.choice(list(WAYS)) for _ in range(rnd.randrange(12))])
    stackcheck.done()
