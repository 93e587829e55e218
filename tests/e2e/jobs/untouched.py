# SPDX-License-Identifier: MIT
"""What a program may do and see that a recorder could disturb; the first argument says which. All output is exact.

Only `pytorch` needs PyTorch: the others call the driver through ctypes, which starts faster.
"""

import ctypes
import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import warnings

OUT_OF_MEMORY = 2
INVALID = 1


class Driver:
    """A context on device 0, and blocks on it."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1", use_errno=True)
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name} returned {status}"

    def take(self, size=1 << 20):
        block = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size))
        return block

    def give(self, block):
        self.call("cuMemFree_v2", block)

    def use(self, nr=3):
        for _ in range(nr):
            self.give(self.take())


def say(*words):
    print(*words, flush=True)


# ---- output and ends -------------------------------------------------------------------------


def printing():
    driver = Driver()
    for i in range(5):
        print("to stdout", i)
        print("to stderr", i, file=sys.stderr)
        driver.use()
    sys.stdout.buffer.write(bytes(range(256)))


def reading():
    Driver().use()
    for number, line in enumerate(sys.stdin):
        print(number, line.upper(), end="")


def exception():
    Driver().use()
    raise ValueError("as the program said it")


def in_thread_exception():
    driver = Driver()

    def body():
        driver.call("cuCtxSetCurrent", driver.context)
        driver.use()
        raise KeyError("of a thread")

    thread = threading.Thread(target=body, name="the thread")
    thread.start()
    thread.join()


def exit_number():
    Driver().use()
    sys.exit(3)


def exit_text():
    Driver().use()
    sys.exit("an exit in words")


def exit_at_once():
    Driver().use()
    print("never flushed")
    os._exit(7)


def exit_functions():
    import atexit

    driver = Driver()
    atexit.register(print, "first registered")
    atexit.register(driver.use)
    atexit.register(print, "last registered")
    driver.use()


def end_by(number):
    Driver().use()
    say("before the signal")
    os.kill(os.getpid(), number)
    say("after the signal")


def terminated():
    end_by(signal.SIGTERM)


def interrupted():
    end_by(signal.SIGINT)


def killed():
    end_by(signal.SIGKILL)


def aborted():
    Driver().use()
    ctypes.CDLL(None).abort()


def fault():
    import faulthandler

    faulthandler.enable()
    Driver().use()
    ctypes.string_at(8)


def warned():
    import logging

    logging.basicConfig(format="%(levelname)s %(message)s")
    Driver().use()
    warnings.warn("a warning")
    logging.error("an error that is logged")


# ---- what the process is ---------------------------------------------------------------------


def descriptors():
    """Numbers are given out as if nobody else had any."""
    before = os.open("/dev/null", os.O_RDONLY)
    driver = Driver()
    driver.use()
    print(os.open("/dev/null", os.O_RDONLY) - before, os.pipe()[1] - before)
    os.closerange(3, 512)
    driver.use()
    print([os.open("/dev/null", os.O_RDONLY) for _ in range(4)])
    os.closerange(3, 512)
    print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:4])


def standard_descriptors():
    driver = Driver()
    driver.use()
    kept = fcntl.fcntl(1, fcntl.F_DUPFD, 100)
    os.closerange(0, 90)
    driver.use()
    numbers = [os.open("/dev/null", os.O_RDWR) for _ in range(3)]
    driver.use()
    os.write(kept, f"{numbers}\n".encode())
    os._exit(4)


def closed_from_the_start():
    os.closerange(0, 256)
    driver = Driver()
    driver.use()
    os._exit(os.open("/dev/null", os.O_RDWR))


def limited(which, value):
    driver = Driver()
    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (value, hard))
    driver.use()
    return resource.getrlimit(which)[0]


def few_descriptors():
    print(limited(resource.RLIMIT_NOFILE, 10))
    numbers = []
    try:
        while True:
            numbers.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        print(error.strerror, max(numbers))


def small_files():
    print(limited(resource.RLIMIT_FSIZE, 4096))


def little_address_space():
    driver = Driver()
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (16 << 20), resource.RLIM_INFINITY))
    blocks = [driver.take(1 << 10) for _ in range(3)]
    for block in blocks:
        driver.give(block)
    print(len(blocks))


def small_stacks():
    driver = Driver()

    def body():
        driver.call("cuCtxSetCurrent", driver.context)
        driver.use(100)
        print("done")

    for size in (32768, 65536):
        threading.stack_size(size)
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()


def places():
    import locale

    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    os.umask(0o027)
    os.chdir("/")
    Driver().use()
    print(os.getcwd(), oct(os.umask(0)), locale.getlocale(), os.nice(0), os.getpgid(0) == os.getpid())


def environment():
    """But for what preloads the recorder and tells it where to write."""
    Driver().use()
    for name, value in sorted(os.environ.items()):
        if not name.startswith(("VRAMTRACE_", "SIMGPU_SHARE")) and name not in ("LD_PRELOAD", "NVTX_INJECTION64_PATH"):
            print(name, value)


def signals():
    threading.Thread(target=int).start()  # the C library has signals of its own from the first thread on
    driver = Driver()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    driver.use()
    with open("/proc/self/status") as status:
        print(*[line for line in status if line.startswith(("Sig", "Shd")) and not line.startswith("SigQ")], sep="")
    print([signal.getsignal(s) for s in (signal.SIGSEGV, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)])


def arithmetic():
    """Rounding mode and raised exceptions of the floating point unit."""
    libm = ctypes.CDLL("libm.so.6")
    driver = Driver()
    libm.fesetround(0x800)
    libm.feclearexcept(0x3D)
    driver.use(20)
    print(libm.fegetround(), libm.fetestexcept(0x3D))


def heap():
    """The program's malloc, from the second allocation on."""

    class Mallinfo(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd us fs uord ford keep".split()]

    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo
    driver = Driver()
    driver.use()
    take, give, block = driver.library.cuMemAlloc_v2, driver.library.cuMemFree_v2, ctypes.c_uint64()
    address, size = ctypes.byref(block), ctypes.c_size_t(4096)
    take(address, size), give(block)
    before = libc.mallinfo2()
    take(address, size), give(block)
    after = libc.mallinfo2()
    print(after.uord - before.uord, after.hblks - before.hblks, after.arena - before.arena)


def linker_errors():
    """dlerror() speaks of the program's own failures."""
    libc = ctypes.PyDLL(None)
    libc.dlsym.restype = libc.dlerror.restype = ctypes.c_char_p
    driver = Driver()
    for _ in range(2):
        libc.dlsym(None, b"no_such_function_anywhere")
        driver.use()
        print((libc.dlerror() or b"").decode().split(": ")[-1], libc.dlerror())


# ---- calls -----------------------------------------------------------------------------------


def error_numbers():
    """errno is what it was before each call, whether it works or not."""
    driver = Driver()
    library, out = driver.library, ctypes.c_uint64()
    where, size, huge = ctypes.byref(out), ctypes.c_size_t(4096), ctypes.c_size_t(1 << 50)
    pointer = ctypes.c_uint64
    calls = [
        ("cuInit", 0), ("cuInit", 9), ("cuMemAlloc_v2", where, size), ("cuMemFree_v2", out),
        ("cuMemAlloc_v2", where, huge), ("cuMemAlloc_v2", where, ctypes.c_size_t(0)), ("cuMemAlloc_v2", None, size),
        ("cuMemFree_v2", pointer(0)), ("cuMemFree_v2", pointer(0x1234)),
        ("cuMemAllocManaged", where, size, 1), ("cuMemFree_v2", out), ("cuMemAllocManaged", where, size, 77),
        ("cuMemHostAlloc", where, size, 0), ("cuMemFreeHost", out), ("cuMemFreeHost", pointer(0x1234)),
        ("cuMemAllocHost_v2", where, size), ("cuMemFreeHost", out), ("cuMemHostAlloc", where, huge, 0),
        ("cuMemAllocPitch_v2", where, ctypes.byref(ctypes.c_size_t()), ctypes.c_size_t(100), ctypes.c_size_t(10), 4),
        ("cuMemFree_v2", out), ("cuMemAllocAsync", where, size, None), ("cuMemFreeAsync", out, None),
        ("cuMemAllocAsync", where, huge, None), ("cuMemFreeAsync", pointer(0x1234), None),
        ("cuMemAddressReserve", where, ctypes.c_size_t(2 << 20), ctypes.c_size_t(0), pointer(0), ctypes.c_uint64(0)),
        ("cuMemAddressFree", out, ctypes.c_size_t(2 << 20)), ("cuMemAddressFree", pointer(0x1234), size),
        ("cuMemRelease", pointer(0x1234)), ("cuMemUnmap", pointer(0x1234), size),
        ("cuMemHostUnregister", pointer(0x1234)), ("cuMemHostRegister_v2", None, size, 0),
        ("cuCtxSynchronize",), ("cuMemGetInfo_v2", where, where),
        ("cuDevicePrimaryCtxRelease_v2", 0), ("cuMemAlloc_v2", where, size), ("cuDevicePrimaryCtxReset_v2", 0),
    ]
    for number in (0, 77):
        for name, *arguments in calls:
            ctypes.set_errno(number)
            status = getattr(library, name)(*arguments)
            print(name, status, ctypes.get_errno())


# ---- other processes -------------------------------------------------------------------------


def square(number):
    return number * number


def pools():
    import multiprocessing

    driver = Driver()
    driver.use()
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(square, range(5)))
    driver.use()


def children():
    driver = Driver()
    driver.use()
    done = subprocess.run(["sh", "-c", "cat; echo to stderr >&2; exit 5"], input=b"through a pipe", capture_output=True)
    print(done)
    child = os.fork()
    if not child:
        sys.exit("from the fork child")
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(os.waitstatus_to_exitcode(os.spawnvp(os.P_WAIT, "sh", ["sh", "-c", "kill -TERM $$"])))


def replaced():
    Driver().use()
    say("one image")
    os.execvp("sh", ["sh", "-c", "echo another image; exit 6"])


def terminal():
    import termios

    Driver().use()
    print(os.isatty(0), os.isatty(1), os.isatty(2), os.get_terminal_size(), termios.tcgetattr(0)[:4])
    print("\x1b[31mred\x1b[0m", file=sys.stderr)
    print(input("a question? "))


def pytorch():
    import torch

    kept = torch.empty(1 << 20, device="cuda")
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError as error:
        print(error.args[0].replace(str(os.getpid()), "PID"))
    warnings.warn("a warning")
    loader = torch.utils.data.DataLoader(range(8), batch_size=4, num_workers=2, pin_memory=True)
    print([batch.tolist() for batch in loader])
    linear = torch.nn.Linear(64, 64, device="cuda")
    linear(torch.ones(8, 64, device="cuda")).sum().backward()
    print(torch.cuda.nvtx.range_push("a range"), torch.cuda.nvtx.range_pop())
    print(torch.cuda.memory_summary())
    print(kept.shape, linear.weight.grad.shape)
    linear(kept)  # an exception through PyTorch


if __name__ == "__main__":
    globals()[sys.argv[1]]()
