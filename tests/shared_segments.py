# SPDX-License-Identifier: MIT
"""Segments of shared memory that recorders keep their rings in, and that killed ones leave until somebody reads."""

import ctypes
from pathlib import Path

LIST = Path("/proc/sysvipc/shm")
KEY = 0x7674_0000  # the upper half of a recorder's keys (FORMAT.md)
SHM_RDONLY = 0o10000  # shmat(2)
IPC_RMID = 0  # shmctl(2)
TRACE_PATH = 3072  # in a status page (FORMAT.md)

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p


def segments(folder):
    """Ids of the segments of recorders whose traces lie below a folder: other tests run at the same time."""
    lines = LIST.read_text().splitlines()[1:] if LIST.exists() else []
    ids = [int(line.split()[1]) for line in lines if int(line.split()[0]) & 0xFFFF_0000 == KEY]
    return {one for one in ids if trace_of(one).startswith(f"{folder}/")}


def trace_of(segment):
    """The path that a segment's status page gives; "" if the segment has gone."""
    base = libc.shmat(segment, None, SHM_RDONLY)
    if base in (None, ctypes.c_void_p(-1).value):
        return ""
    path = ctypes.string_at(base + TRACE_PATH, 1024).split(b"\0")[0].decode()
    libc.shmdt(ctypes.c_void_p(base))
    return path


def remove_segments(folder):
    """
    What killed programs have left of traces below a folder: a recorder that finds 64 such segments takes no more.
    One that is still attached goes when its last process ends.
    """
    for one in segments(folder):
        libc.shmctl(one, IPC_RMID, None)
