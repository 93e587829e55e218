# SPDX-License-Identifier: MIT
"""Every kind of frame that Python has, captured and compared with what Python itself says."""
import asyncio
import contextlib
import ctypes
import functools
import random
import sys
import threading

import decode
import stackcheck
from stackcheck import HELD, RELEASED, check, expected, here, stack_of


def plain():
    here("plain")


def recursion(n):
    if n == 0:
        here("recursion")
    else:
        (recursion)(
            n
            - 1
        )


class Kinds:
    def __init__(self, what):
        here("init " + what)

    def method(self):
        here("method")

    @classmethod
    def class_method(cls):
        here("classmethod")

    @staticmethod
    def static_method():
        here("staticmethod")

    @property
    def property(self):
        here("property")

    def __getitem__(self, key):
        here("getitem")

    def __getattr__(self, name):
        here("getattr")

    def __add__(self, other):
        here("add")

    def __del__(self):
        here("del")


def classes():
    kinds = Kinds("direct")
    kinds.method(), Kinds.class_method(), Kinds.static_method(), kinds.property, kinds[1], kinds.missing
    kinds + 1
    del kinds

    class Meta(type):
        def __call__(cls, *args):
            here("metaclass call")
            return super().__call__(*args)

    class Body(metaclass=Meta):
        here("class body")

        def __init__(self):
            here("init under metaclass")

    Body()


class Counted:
    def __init__(self, n):
        if n % 50 == 0:
            here("specialised init")


def counted(n):
    if n % 50 == 0:
        here("specialised call")


def specialised():
    """Often enough for the interpreter to rewrite the calls."""
    for n in range(300, -1, -1):
        Counted(n)
        counted(n)


def generator(n):
    yield 1
    if n:
        yield from generator(n - 1)
    else:
        here("generator")
        yield 2


def sent():
    value = yield
    here("send")
    try:
        yield value
    except KeyError:
        here("throw")
        yield 0
    finally:
        here("close")


def generators():
    list(generator(4))
    g = sent()
    next(g)
    g.send(1)
    g.throw(KeyError())
    g.close()


async def coroutine(n):
    if n:
        return await coroutine(n - 1)
    await asyncio.sleep(0)
    here("coroutine")


async def async_generator():
    for i in range(2):
        await asyncio.sleep(0)
        here("async generator")
        yield i


class AsyncContext:
    async def __aenter__(self):
        here("aenter")

    async def __aexit__(self, *args):
        here("aexit")


async def asynchronous():
    await coroutine(5)
    await asyncio.ensure_future(coroutine(3))
    await asyncio.gather(coroutine(1), coroutine(2))
    async for _ in async_generator():
        here("async for")
    [here("async comprehension") async for _ in async_generator()]
    async with AsyncContext():
        here("async with")
    asyncio.get_running_loop().call_soon(functools.partial(here, "call_soon"))
    await asyncio.sleep(0)


def sort_key(x):
    here("sort key")
    return x


def callbacks():
    sorted([3, 1], key=sort_key)
    list(map(lambda x: here("lambda"), [1]))
    [here("list comprehension") for _ in (1,)]
    {here("set comprehension") for _ in (1,)}
    {1: here("dict comprehension") for _ in (1,)}
    list(here("generator expression") for _ in (1,))
    [[here("nested comprehension") for _ in (1,)] for _ in (1,)]
    functools.reduce(lambda a, b: here("reduce"), [1, 2])
    functools.partial(here, "partial")()
    function = ctypes.CFUNCTYPE(None)
    RELEASED.probe_call(function(lambda: here("called from C")))

    def deep(n):
        if n:
            RELEASED.probe_call(function(lambda: deep(n - 1)))
        else:
            here("called from C, nested")

    deep(4)


def run(source, file):
    exec(compile(source, file, "exec"), globals())


def generated():
    run("def f():\n  here('exec')\n\n\nf()\n", "<generated>")
    run("def f\u00fc\u00f1():\n  here('Latin-1')\nf\u00fc\u00f1()\n", "\u00e9.py")
    run("def \u4f60\u597d():\n  here('UCS-2')\n\u4f60\u597d()\n", "\u65e5\u672c.py")
    run("def \U0001d400x():\n  here('UCS-4')\n\U0001d400x()\n", "\U0001f600.py")
    run("def f():\n  here('mixed')\nf()\n", "a\u00e9\u65e5\U0001f600.py")
    code = compile("def f():\n  here('surrogate')\nf()\n", "x.py", "exec")
    with contextlib.suppress(UnicodeEncodeError):
        exec(rename(code, "undecodable\udcff.py"), globals())
    exec(rename(code, ""), globals())
    eval("here('eval')")
    run("def long(n):\n" + "\n" * 700 + "  x = 0\n" + "".join("  x += %d\n" % i for i in range(400)) +
        "  for i in (1, 2):\n" + "\n" * 300 + "    here('long')\n" +
        "  here('long end')\nlong(1)\n", "<long>")
    run("def back():\n  return (\n" + "\n" * 200 + "   here('back'\n" + "\n" * 300 +
        "  ),\n  )[0]\nback()\n", "<back>")
    run("def wide():\n  x = '" + "y" * 3000 + "'; here('wide'); " + "x = 1; " * 300 +
        "here('wide end')\nwide()\n", "<wide>")


def rename(code, file):
    """The code, and the code inside it, as if compiled from another file."""
    inner = tuple(rename(c, file) if hasattr(c, "co_code") else c for c in code.co_consts)
    return code.replace(co_filename=file, co_consts=inner)


@contextlib.contextmanager
def context():
    here("with enter")
    yield
    here("with exit")


def control():
    with context():
        here("with")
    try:
        here("try")
        raise ValueError
    except ValueError:
        here("except")
    finally:
        here("finally")
    for i in range(2):
        if i:
            here("loop")
        else:
            here("loop else")
    while True:
        here("while")
        break
    (lambda: (
        here("lambda on lines")
    ))()


CAPSULE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def capsule():
    """An object whose C destructor captures, as a tensor's does."""
    return new_capsule(1, None, ctypes.cast(HELD.probe_capsule, ctypes.c_void_p))


def last_capsule():
    return stack_of(HELD.probe_capsule_stack())


def local_dies():
    tensor = capsule()
    return tensor is None


def destructors():
    tensor = capsule()
    del tensor; want = expected()
    check("del statement", last_capsule(), want)
    local_dies(); want = expected()
    check("local at return", last_capsule(), want)
    tensor = capsule()
    tensor = None; want = expected()
    check("rebinding", last_capsule(), want)
    cycle = [capsule()]
    cycle.append(cycle)
    del cycle
    import gc
    gc.collect(); want = expected()
    check("cycle collected", last_capsule(), want)


def deep(n):
    """At the bottom, what must be seen of a stack of more frames than are kept."""
    if n:
        return deep(n - 1)
    got = stack_of(RELEASED.probe_python()); want = expected()
    check_deep(got, want)


def check_deep(got, want):
    cut = [f for f in got if f[0] == "cut"]
    check("one cut", len(cut), 1)
    if len(cut) == 1:
        at = got.index(cut[0])
        check("newest frames", got[:at], want[:at])
        check("oldest frames", got[at + 1:], want[-16:])
        check("frames left out", at + cut[0][1] + 16, len(want))
        check("enough frames kept", at > 768, True)


def shallow(n):
    """At the bottom of a stack that is kept whole."""
    if n:
        return shallow(n - 1)
    got = stack_of(RELEASED.probe_python()); want = expected()
    check("%d frames, none cut" % len(want), got, want)


def either():
    """A stack of whatever depth."""
    got = stack_of(RELEASED.probe_python()); want = expected()
    if len(want) <= 1040:
        check("%d frames" % len(want), got, want)
    else:
        check_deep(got, want)


def wander(n, rnd):
    """Goes down to n calls, captures on the way at random depths, also through C, and again on the way back."""
    if rnd.random() < .005:
        either()
    if rnd.random() < .005:
        RELEASED.probe_call(ctypes.CFUNCTYPE(None)(either))
    if n:
        wander(n - 1, rnd)
    else:
        either()
    if rnd.random() < .01:
        either()
    if rnd.random() < .002:
        wander(rnd.randrange(300), rnd)
        either()


def depths():
    """On a thread with room for the recursion, which takes native stack before 3.11."""
    base = len(expected())
    for n in range(1020, 1041):
        shallow(n - base - 1)
    for n in (1100, 1101, 1500, 2000, 9000):
        deep(n)
    rnd = random.Random(3)
    for n in (100, 900, 1030, 1300, 50, 1290, 2000):
        wander(n, rnd)


def deep_thread():
    size = threading.stack_size(512 << 20)
    sys.setrecursionlimit(20000)
    worker = threading.Thread(target=depths)
    worker.start()
    worker.join()
    threading.stack_size(size)


def busy(stop):
    x = 0
    while not stop.is_set():
        for _ in range(1000):
            x += 1


def threads():
    stop = threading.Event()
    others = [threading.Thread(target=busy, args=(stop,)) for _ in range(2)]

    def work(seed):
        for i in range(10):
            check("other threads run", stack_of(RELEASED.probe_python_later(2000)), expected())
            if i % 2:
                recursion(seed + i)
            else:
                plain()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in others + workers:
        t.start()
    for t in workers:
        t.join()
    stop.set()
    for t in others:
        t.join()
    check("thread without Python", RELEASED.probe_python_foreign(), decode.NO_PYTHON)
    short = [threading.Thread(target=plain) for _ in range(40)]
    for t in short:
        t.start()
        t.join()


def all_kinds():
    plain()
    for n in (0, 1, 30, 300):
        recursion(n)
    classes()
    specialised()
    generators()
    callbacks()
    generated()
    control()


def traced():
    """Tracing and profiling run Python code inside other code's frames."""
    def tracer(frame, event, arg):
        return tracer

    sys.settrace(tracer)
    all_kinds()
    sys.settrace(None)
    sys.setprofile(lambda *args: None)
    all_kinds()
    sys.setprofile(None)
    if sys.version_info >= (3, 12):
        monitoring = sys.monitoring
        events = monitoring.events
        watched = (events.LINE, events.INSTRUCTION, events.CALL, events.PY_START, events.JUMP)
        monitoring.use_tool_id(3, "test")
        for event in watched:
            monitoring.register_callback(3, event, lambda *args: None)
        monitoring.set_events(3, functools.reduce(lambda a, b: a | b, watched))
        all_kinds()
        monitoring.set_events(3, 0)


def refused():
    """A stack whose definitions cannot be committed is not captured, and captured again when they can."""
    HELD.probe_refuse(1)
    scope = {"HELD": HELD}
    exec("def new():\n  return HELD.probe_python()\nid = new()\n", scope)
    check("refused", scope["id"], decode.NOT_CAPTURED)
    HELD.probe_refuse(0)
    scope["id"] = scope["new"]()
    check("no longer refused", stack_of(scope["id"])[0][1], "new")


if __name__ == "__main__":
    check("support", HELD.probe_support().decode(), "supported: %d.%d.%d" % sys.version_info[:3])
    check("finalizing", HELD.probe_finalizing(), 0)
    for _ in range(3):
        all_kinds()
    asyncio.run(asynchronous())
    destructors()
    deep_thread()
    threads()
    traced()
    refused()
    nodes, codes = HELD.probe_count(decode.FRAME), HELD.probe_count(decode.CODE)
    for _ in range(5):
        first = [HELD.probe_python() for _ in range(2)]
        check("equal stacks have one id", first[0], first[1])
    print("%d nodes, %d code objects" % (nodes, codes))
    stackcheck.done()
