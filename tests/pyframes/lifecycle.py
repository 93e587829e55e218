# SPDX-License-Identifier: MIT
"""Fork children, ending threads, and an interpreter that goes away under threads that capture."""
import os
import subprocess
import sys
import threading
import warnings

import decode
import stackcheck
from stackcheck import HELD, check, here

DAEMONS = """
import sys, threading, time
sys.path[:] = %r
import stackcheck
def spin(n):
    if n:
        return spin(n - 1)
    stackcheck.RELEASED.probe_spin()
for i in range(4):
    threading.Thread(target=spin, args=(3 * i,), daemon=True).start()
time.sleep(0.01)
x = [[str(i) for i in range(200)] for _ in range(200)]
"""

LATE = """
import os, sys
sys.path[:] = %r
import stackcheck
assert stackcheck.HELD.probe_finalizing() == 0
class Late:
    def __del__(self, held=stackcheck.HELD, write=os.write):
        write(1, b"%%d %%d" %% (held.probe_finalizing(), held.probe_python()))
late = Late()
"""


def child_records():
    """A child has its own tree: begun anew, with ids that start from the first."""
    here("before fork")
    pid = os.fork()
    if pid == 0:
        HELD.probe_start()
        stackcheck.checks = 0
        del stackcheck.bad[:]
        stackcheck.trace.codes.clear()
        first = HELD.probe_python()
        check("ids begin anew", first <= len(stackcheck.expected()) + 1, True)
        here("in the child")
        check("native in the child", HELD.probe_native() > 1, True)
        os._exit(1 if stackcheck.bad or stackcheck.checks != 4 else 0)
    check("child", os.waitpid(pid, 0)[1], 0)
    here("after fork")


def fork_among_threads():
    """Children of a process whose other threads are capturing all the time."""
    stop = threading.Event()

    def capture():
        while not stop.is_set():
            scope = {"HELD": HELD}
            name = "f%d" % id(scope)
            exec("def %s():\n  HELD.probe_python()\n  HELD.probe_native()\n%s()\n" % (name, name), scope)

    threads = [threading.Thread(target=capture) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(20):
        child_records()
    stop.set()
    for t in threads:
        t.join()


def outcome(program):
    """Exit status and all output of another interpreter."""
    run = subprocess.run([sys.executable, "-c", program % (sys.path,)], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    return run.returncode, run.stdout


def finalisation():
    for _ in range(12):
        check("daemon threads at the end", outcome(DAEMONS), (0, b""))
    check("freed in finalisation", outcome(LATE), (0, b"1 %d" % decode.NO_PYTHON))


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 and later advise against fork among threads
    child_records()
    fork_among_threads()
    finalisation()
    stackcheck.done()
