# SPDX-License-Identifier: MIT
"""
What a program could see of the copies that look for names: `unharmed.py CASE [ARGUMENT]` prints what it does see, as JSON.
"""

import ctypes
import gc
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

libc = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20
TRAVERSE, MEMBERS = 184, 240  # of PyTypeObject: tp_traverse, tp_members
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 36, 38, 22
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_DUMPABLE = 1, 2, 4
SYS_CLONE, CLONE_THREAD, EPERM = 56, 0x10000, 1
WALL = 0x40000000  # of waitpid(): children of whatever kind


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
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            pass  # the thread has ended
    return found


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


def all_children():
    """Who waits for clones as well may be told of a copy's end before the recorder is."""
    out_of_memory()
    try:
        while True:
            os.waitpid(-1, WALL)
    except ChildProcessError:
        pass
    return {"left": wait_for_none()}


def own_children():
    """A child of the program's own is found, and its status is right."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 0.3; exit 7"], {})
    out_of_memory()
    got, status = os.wait()
    return {"is_it": got == pid, "status": os.waitstatus_to_exitcode(status), "left": wait_for_none()}


def many_children():
    """20 that end while copies are made and end: a handler of SIGCHLD finds them all, and nobody else."""
    found = []

    def reap(number, frame):
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                found.append(ended)
        except ChildProcessError:
            pass

    signal.signal(signal.SIGCHLD, reap)
    started = []
    for number in range(20):
        started.append(os.posix_spawn("/bin/sh", ["sh", "-c", f"sleep 0.0{number}; exit {number}"], {}))
        if number % 5 == 0:
            out_of_memory()
    left = wait_for_none()
    statuses = {pid: os.waitstatus_to_exitcode(status) for pid, status in found}
    return {"statuses": [statuses.get(pid) for pid in started], "others": len(found) - len(started), "left": left}


def errno_after(function):
    """What a call leaves in errno; it does not change it if it goes well."""
    place = libc.__errno_location
    place.restype = ctypes.POINTER(ctypes.c_int)
    place().contents.value = 77
    function()
    return place().contents.value


def errors():
    kept = []
    return {"errno": [errno_after(lambda: more(kept)), errno_after(out_of_memory)], "left": wait_for_none()}


def deathsigs():
    """Children that are to die with the program live while copies end, and die with it: else its output stays open."""
    kept = [[number] for number in range(300_000)]  # for the copy to look at when the program has ended
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0)
    mine = ctypes.c_int()
    child = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    out_of_memory()
    while len(copies()) > 1:
        time.sleep(0.05)
    libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(mine), 0, 0, 0)
    lives = child.poll() is None
    out_of_memory()
    return {"lives": lives, "signal": mine.value, "kept": len(kept)}


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
    return {"errno": errno_after(out_of_memory), "left": len(copies())}


def thread_starts():
    """May the program make a thread?"""
    thread = threading.Thread(target=int)
    try:
        thread.start()
    except RuntimeError as error:
        return str(error)
    thread.join()
    return "started"


def user_limit(folder):
    """As a user whose only process this is: one that has as many tasks as it may, and one that may make one more."""
    os.chmod(folder, 0o777)
    user = 100_000 + os.getpid()
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as a program has it that the user has started
    out_of_memory()
    left, seen = wait_for_none(), []
    for spare in (0, 1):
        tasks = len(os.listdir("/proc/self/task"))
        resource.setrlimit(resource.RLIMIT_NPROC, (tasks + spare, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
        out_of_memory()
        seen.append(thread_starts())
    return {"thread": seen, "left": left}


def tasks_limit(group):
    """The same in a control group."""
    out_of_memory()
    left, seen = wait_for_none(), []
    for spare in (0, 1):
        tasks = int(Path(group, "pids.current").read_text())
        Path(group, "pids.max").write_text(str(tasks + spare))
        time.sleep(0.5)  # the recorder looks now and then
        out_of_memory()
        seen.append(thread_starts())
    return {"thread": seen, "left": left}


def limit_memory(group, spare):
    """The group may have so many bytes more than it has: a file of the kernel's second or first interface."""
    new = Path(group, "memory.max").exists()
    usage, limit = ("memory.current", "memory.max") if new else ("memory.usage_in_bytes", "memory.limit_in_bytes")
    Path(group, limit).write_text(str(int(Path(group, usage).read_text()) + spare))
    time.sleep(0.5)  # the recorder looks now and then


def memory_left(group):
    new = Path(group, "memory.max").exists()
    limit, usage = ("memory.max", "memory.current") if new else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    return int(Path(group, limit).read_text()) - int(Path(group, usage).read_text())


def memory_limit(group, spare, hold=False):
    """4 GiB in memory, and little more to be had: all of it is written again, from while a copy is there on.

    The copy is stopped until there is less room than it needs (48 MiB), and then goes on, unless it is held.
    """
    many = [[number] for number in range(1_000_000)]  # for the copy to look at
    memory = torch.ones(4 << 30, dtype=torch.uint8)
    limit_memory(group, int(spare))
    out_of_memory()
    stopped = copies()
    for pid in stopped:
        while Path(f"/proc/{pid}/oom_score_adj").read_text() != "1000\n":
            time.sleep(0.001)  # it has yet to say that it is to be killed first
        os.kill(pid, signal.SIGSTOP)
    for piece in memory.split(4 << 20):
        if stopped and not hold and memory_left(group) < 40 << 20:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            stopped = []
            wait_for_none()
        piece.fill_(3)
    whole = int(memory.view(torch.int64).min()) == int.from_bytes(bytes([3] * 8), "little")
    return {"whole": whole, "kept": len(many), "left": wait_for_none()}


def memory_limit_held(group, spare):
    """The copy cannot give way, for it is stopped: the kernel ends it, and not the program."""
    return memory_limit(group, spare, hold=True)


def subreaper():
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    out_of_memory()
    return {"left": wait_for_none()}


class Wrong:
    pass


def spoil(address, offset=TRAVERSE):
    """The class's own objects cannot be looked at any more; the program's collector must not try."""
    gc.disable()
    ctypes.c_void_p.from_address(id(Wrong) + offset).value = address


def fault():
    """What only the class's own code knows is missing, and nothing else; a handler of the program's must not run."""
    import faulthandler

    faulthandler.enable()
    held = Wrong()
    held.tensor = torch.ones(10, device="cuda")
    spoil(8)
    out_of_memory()
    spoil(ctypes.cast(libc.abort, ctypes.c_void_p).value)
    out_of_memory()
    return {"left": wait_for_none()}


def crash():
    """The copy meets an object that makes it crash; a handler of the program's for that must not run."""
    import faulthandler

    faulthandler.enable()
    held = Wrong()
    held.tensor = torch.ones(10, device="cuda")
    spoil(8, MEMBERS)
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
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])), flush=True)
    if sys.argv[1] in ("fault", "crash", "hang"):
        os._exit(0)  # Python's own end looks at all objects
