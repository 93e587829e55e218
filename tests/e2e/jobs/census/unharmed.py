# SPDX-License-Identifier: MIT
"""What a program could see of the copies that look for names: `unharmed.py CASE` prints what it does see, as JSON."""

import ctypes
import gc
import json
import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path

import torch

libc = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20
TRAVERSE = 184  # of PyTypeObject: tp_traverse
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 36, 38, 22
SYS_CLONE, CLONE_THREAD, EPERM = 56, 0x10000, 1


def more(kept, mib=100):
    """A new high: a copy is made within this call."""
    kept.append(torch.empty(mib * MIB, dtype=torch.uint8, device="cuda"))


def out_of_memory():
    """The same without a wait for how much of the time copies take."""
    try:
        torch.empty(1 << 45, device="cuda")
    except torch.OutOfMemoryError:
        pass


def copies():
    """Processes that /proc lists as children of this one."""
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def wait_for_none(seconds=20):
    """How many are left after a while: the recorder's thread reaps them."""
    until = time.monotonic() + seconds
    while copies() and time.monotonic() < until:
        time.sleep(0.05)
    return len(copies())


def children():
    """No child to wait for, no signal of its end, and none that stays."""
    seen = []
    signal.signal(signal.SIGCHLD, lambda number, frame: seen.append(number))
    out_of_memory()
    try:
        waited = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        waited = "no children"
    left = wait_for_none()
    return {"waited": waited, "signals": len(seen), "left": left}


def own_children():
    """A child of the program's own is found, and its status is right."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 0.3; exit 7"], {})
    out_of_memory()
    got, status = os.wait()
    return {"is_it": got == pid, "status": os.waitstatus_to_exitcode(status), "left": wait_for_none()}


def descriptors():
    """The copy has none of the program's: whoever waits for the end of a pipe gets it."""
    reading, writing = os.pipe()
    link = os.readlink(f"/proc/self/fd/{writing}")
    out_of_memory()
    held = False
    while copies():  # the last look at it counts: it begins with what it was copied with
        for pid in copies():
            try:
                held = link in [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
            except OSError:
                pass  # it has ended
    os.close(writing)
    return {"held": held, "end": os.read(reading, 1).decode(), "open": len(os.listdir("/proc/self/fd"))}


def fork_handlers():
    called = []
    handler = ctypes.CFUNCTYPE(None)(lambda: called.append(1))
    getattr(libc, "__register_atfork")(handler, handler, handler, None)  # what pthread_atfork() calls
    os.register_at_fork(before=lambda: called.append(2), after_in_parent=lambda: called.append(3))
    out_of_memory()
    return {"called": len(called), "left": wait_for_none()}


def threads():
    """200 that allocate and run Python while copies are made."""
    kept, go = [], threading.Event()

    def work():
        mine = torch.ones(1000, device="cuda")
        go.wait()
        kept.append(float(sum(range(1000))) + mine.numel())

    workers = [threading.Thread(target=work) for _ in range(200)]
    for worker in workers:
        worker.start()
    out_of_memory()
    go.set()
    out_of_memory()
    for worker in workers:
        worker.join()
    return {"sum": sum(kept), "left": wait_for_none()}


def forbid_clone():
    """seccomp: clone(2) of a process fails, threads may still be made."""
    statements = [
        (0x20, 0, 0, 0),  # load the call's number
        (0x15, 0, 3, SYS_CLONE),
        (0x20, 0, 0, 16),  # load its flags
        (0x45, 1, 0, CLONE_THREAD),
        (0x06, 0, 0, 0x00050000 | EPERM),
        (0x06, 0, 0, 0x7FFF0000),
    ]
    code = b"".join(struct.pack("HBBI", *one) for one in statements)
    program = ctypes.create_string_buffer(code)
    filter_ = struct.pack("HxxxxxxQ", len(statements), ctypes.addressof(program))
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(filter_), 0, 0) == 0


def forbidden():
    forbid_clone()
    ctypes.set_errno(0)
    out_of_memory()
    return {"left": len(copies())}


def subreaper():
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    out_of_memory()
    return {"left": wait_for_none()}


class Wrong:
    pass


def spoil(address):
    """The class's own objects cannot be looked at any more; the program's collector must not try."""
    gc.disable()
    ctypes.c_void_p.from_address(id(Wrong) + TRAVERSE).value = address


def crash():
    """The copy meets an object that makes it crash; a handler of the program's for that must not run."""
    import faulthandler

    faulthandler.enable()
    held = Wrong()
    held.tensor = torch.ones(10, device="cuda")
    spoil(8)
    out_of_memory()
    left = wait_for_none()
    return {"left": left, "cores": len(list(Path.cwd().glob("core*")))}


def hang():
    held = Wrong()
    held.tensor = torch.ones(10, device="cuda")
    spoil(ctypes.cast(libc.pause, ctypes.c_void_p).value)
    out_of_memory()
    return {"left": wait_for_none()}


def highs():
    """New highs, one after another: their copies take no more than their share of the time."""
    kept = []
    for _ in range(12):
        more(kept)
    return {"kept": len(kept), "left": wait_for_none()}


if __name__ == "__main__":
    torch.zeros(1, device="cuda")
    print(json.dumps(globals()[sys.argv[1]]()), flush=True)
    if sys.argv[1] in ("crash", "hang"):
        os._exit(0)  # Python's own end looks at all objects
