# SPDX-License-Identifier: MIT
"""The rendezvous store, which the launcher of a real job would serve.

A child of the lowest present rank does, until `run` sends a message to its socket, or is no more. The socket's name has
the store's port, so that no second process of that rank serves it, too.
"""

import os
import select
import socket
import warnings

from .job import PRESENT


def serve():
    if int(os.environ["RANK"]) != PRESENT[0]:
        return
    port = os.environ["MASTER_PORT"]
    end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        end.bind(f"\0vramtrace-store-{port}")
    except OSError:
        return  # an earlier process of this rank has done it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that a child does not have
        if os.fork():
            end.close()
            return
    try:
        serve_until(end, int(port))
    finally:
        os._exit(0)


def serve_until(end, port):
    from torch._C._distributed_c10d import TCPStore

    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) > 2 and int(entry) != end.fileno():
            try:
                os.close(int(entry))
            except OSError:
                pass  # the one that listed them
    store = TCPStore("127.0.0.1", port, None, True, wait_for_workers=False)
    wait_for(end, int(os.environ["SIMGPU_RANKS_OF"]))
    del store


def wait_for(end, pid):
    """Until something comes to the socket, or process PID has ended."""
    try:
        select.select([end, os.pidfd_open(pid)], [], [])
    except ProcessLookupError:
        pass
    except (AttributeError, OSError):  # before Python 3.9, or Linux 5.3
        while os.path.exists(f"/proc/{pid}") and not select.select([end], [], [], 0.2)[0]:
            pass
