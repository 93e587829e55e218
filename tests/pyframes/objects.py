# SPDX-License-Identifier: MIT
"""Every way in which Python's objects hold others, read from memory and compared with what Python itself says."""
import collections
import ctypes
import enum
import functools
import gc
import os
import sys
import types

GLOBAL, CYCLE, NATIVE = 2, 3, 15
LOCAL, ATTRIBUTE, KEY, NUMBER, OBJECT, INDEX = 1, 4, 5, 6, 7, 8
CELL, DEFAULT, MEMBER, SELF, FUNCTION = 9, 10, 11, 13, 14
NO_FRAME = 0xFFFFFFFF
ROOM = 20000
HAVE_GC = 1 << 14


class Edge(ctypes.Structure):
    _fields_ = [("object", ctypes.c_void_p), ("name", ctypes.c_void_p), ("number", ctypes.c_int64),
                ("edge", ctypes.c_uint8)]


class Meeting(ctypes.Structure):
    _fields_ = [("parent", ctypes.c_void_p), ("edge", ctypes.c_uint32)]


probe = ctypes.PyDLL(os.environ["PYFRAMES_LIBRARY"])  # the GIL is kept
probe.probe_find.restype = ctypes.c_char_p
probe.probe_length.restype = probe.probe_bound.restype = probe.probe_walk.restype = ctypes.c_uint64
probe.probe_globals.restype = probe.probe_get.restype = probe.probe_attribute.restype = ctypes.c_void_p
for name in ("each", "traverse", "locals"):
    getattr(probe, "probe_" + name).restype = ctypes.c_uint32
buffer = (Edge * ROOM)()

checks = 0
bad = []


def check(what, got, want):
    global checks
    checks += 1
    if got != want:
        bad.append(what)
        if len(bad) <= 40:
            print("MISMATCH %s\n    got  %r\n    want %r" % (what, got, want))


class Held:
    """An object to be found; it goes by its name."""

    known = {}

    def __init__(self, name):
        self.name = name
        Held.known[id(self)] = self

    def __repr__(self):
        return self.name


def held(*names):
    return [Held(one) for one in names]


def python_object(address):
    return ctypes.cast(address, ctypes.py_object).value


def label(edge):
    """What an edge says beside its kind."""
    if edge.edge == INDEX:
        return edge.number
    return python_object(edge.name) if edge.name else None


def pointer(thing):
    return ctypes.c_void_p(id(thing))


def edges_of(thing):
    """All edges, as (kind, label, address)."""
    nr = probe.probe_each(pointer(thing), buffer, ROOM)
    assert nr <= ROOM
    return [(buffer[i].edge, label(buffer[i]), buffer[i].object) for i in range(nr)]


def found(edges):
    """Of edges those to a Held, each once; what goes by a name need not go as a member as well."""
    seen = {(edge, what, Held.known[address].name) for edge, what, address in edges if address in Held.known}
    named = {name for edge, _, name in seen if edge != MEMBER}
    return sorted((one for one in seen if one[0] != MEMBER or one[2] not in named), key=repr)


def holds(what, thing, *wanted):
    check(what, found(edges_of(thing)), sorted(wanted, key=repr))


def locals_of(thing, number=7):
    """Variables of a frame's owner by name, None if it has no frame."""
    nr = probe.probe_locals(pointer(thing), ctypes.c_int64(number), buffer, ROOM)
    if nr == NO_FRAME:
        return None
    assert nr <= ROOM
    edges = [buffer[i] for i in range(nr)]
    assert all((one.edge, one.number) == (LOCAL, number) for one in edges)
    return {python_object(one.name): Held.known[one.object].name for one in edges if one.object in Held.known}


class Look:
    """At which of the calls of here() to look, for a look of Python's own may leave a dict of all variables in a frame."""

    nr = at = 0


def here(what):
    """Compare the variables of the caller."""
    Look.nr += 1
    if Look.nr != Look.at:
        return
    frame = sys._getframe(1)
    got = locals_of(frame)
    check(what, got, {name: one.name for name, one in frame.f_locals.items() if isinstance(one, Held)})


def each_look(function):
    """Call it as often as it calls here(), each time with another one that looks."""
    Look.at = Look.nr = 1
    while Look.at <= Look.nr:
        Look.nr = 0
        function()
        Look.at += 1


# ---- attributes ------------------------------------------------------------------------------------


class Plain:
    pass


class Slots:
    __slots__ = ("first", "second", "größe", "__private")

    def set_private(self, value):
        self.__private = value


class MoreSlots(Slots):
    __slots__ = ("third",)


class SlotsAndDict(MoreSlots):
    pass


class SlotWithDict:
    __slots__ = ("slot", "__dict__", "__weakref__")


class Dict(dict):
    pass


class List(list):
    pass


class Tuple(tuple):
    pass


class TupleWithSlots(Tuple):
    __slots__ = ()


class Int(int):
    pass


class Bytes(bytes):
    pass


class Set(set):
    pass


class Error(Exception):
    pass


class Colour(enum.Enum):
    RED = 1


def attributes(count, cls=Plain, *args):
    thing, names = cls(*args), ["a%d" % i for i in range(count)]
    for name in names:
        setattr(thing, name, Held(name))
    return thing, [(ATTRIBUTE, name, name) for name in names]


def deletions():
    """Attributes that go and come again, so that values are not in the order of their keys."""
    for touched in (False, True):
        thing, wanted = attributes(5)
        if touched:
            thing.__dict__
        del thing.a2, thing.a0
        thing.a0 = thing.a1
        wanted = [one for one in wanted if one[1] in ("a1", "a3", "a4")]
        holds("deleted attributes, %s" % touched, thing, *wanted, (ATTRIBUTE, "a0", "a1"))


def replaced_dict():
    thing, _ = attributes(3)
    thing.__dict__ = {"other": Held("another"), 3: Held("by number")}
    holds("another dict", thing, (ATTRIBUTE, "other", "another"), (NUMBER, 3, "by number"))
    thing.__dict__ = {}
    holds("an empty dict", thing)


def order_of_keys():
    """Objects of one class that get their attributes in different orders, and one that has not all of them."""
    class Shared:
        pass

    for names in ("abc", "cab", "b", "bdace", ""):
        thing = Shared()
        for name in names:
            setattr(thing, name, Held(name))
        holds("order " + names, thing, *[(ATTRIBUTE, name, name) for name in names])


def check_attributes():
    for count in (0, 1, 2, 5, 6, 13, 29, 30, 31, 32, 60, 1000):
        class Fresh:
            pass

        for touched in (False, True):
            thing, wanted = attributes(count, Fresh)
            if touched:
                thing.__dict__
            holds("%d attributes, %s" % (count, touched), thing, *wanted)
            if touched:
                wanted.append((ATTRIBUTE, "later", "later"))
                thing.later = Held("later")
                holds("%d attributes and one" % count, thing, *wanted)
    deletions()
    replaced_dict()
    order_of_keys()
    thing = Plain()
    setattr(thing, "größe", Held("a"))
    setattr(thing, "名前", Held("b"))
    setattr(thing, "𝔵", Held("c"))
    holds("names that are not ASCII", thing, (ATTRIBUTE, "größe", "a"), (ATTRIBUTE, "名前", "b"), (ATTRIBUTE, "𝔵", "c"))


def check_attributes_of_others():
    for cls, args in ((Int, (5,)), (Int, (0,)), (Int, (-(1 << 100),)), (Bytes, (b"12345",)), (Bytes, (b"",)), (Error, ()),
                      (Set, ()), (Dict, ()), (List, ()), (Tuple, ((1, 2),)), (Tuple, ((),)), (TupleWithSlots, ((1, 2, 3),)),
                      (types.SimpleNamespace, ()), (functools.partial, (len,))):
        thing, wanted = attributes(3, cls, *args)
        holds("attributes of %s%r" % (cls.__name__, args), thing, *wanted)
    Colour.RED.extra = Held("of an enum")
    holds("enum", Colour.RED, (ATTRIBUTE, "extra", "of an enum"))


def check_slots():
    for cls in (Slots, MoreSlots, SlotsAndDict):
        thing, wanted = cls(), []
        for name in ("first", "größe", "third", "more"):
            if hasattr(cls, name) or cls is SlotsAndDict:
                setattr(thing, name, Held(name))
                wanted.append((ATTRIBUTE, name, name))
        thing.set_private(Held("private"))
        holds("slots of " + cls.__name__, thing, *wanted, (ATTRIBUTE, "_Slots__private", "private"))
    thing = SlotWithDict()
    thing.slot, thing.other = held("slot", "other")
    holds("a slot and a dict", thing, (ATTRIBUTE, "slot", "slot"), (ATTRIBUTE, "other", "other"))


# ---- containers ------------------------------------------------------------------------------------


def fill(container):
    a, b, c, d, e = held("a", "b", "c", "d", "e")
    by_tuple = (1, 2)
    container.update({"text": a, 7: b, -7: c, True: d, by_tuple: e, "größe": a, 1 << 50: b, Held("key"): 1})
    return [(KEY, "text", "a"), (NUMBER, 7, "b"), (NUMBER, -7, "c"), (OBJECT, True, "d"), (OBJECT, by_tuple, "e"),
            (KEY, "größe", "a"), (NUMBER, 1 << 50, "b"), (MEMBER, None, "key")]


def check_dicts():
    for cls in (dict, Dict, collections.OrderedDict, collections.Counter):
        thing = cls()
        wanted = fill(thing)
        holds("entries of " + cls.__name__, thing, *wanted)
    thing = collections.defaultdict(functools.partial(list, ()))
    holds("defaultdict", thing, *fill(thing))
    thing, wanted = attributes(2, Dict)
    thing["key"] = Held("entry")
    holds("entry and attributes", thing, *wanted, (KEY, "key", "entry"))
    for count in (0, 1, 5, 6, 100, 1000):
        names = ["k%d" % i for i in range(count)]
        thing = {name: Held(name) for name in names}
        holds("dict of %d" % count, thing, *[(KEY, name, name) for name in names])
        for name in names[::2]:
            del thing[name]
        holds("dict of half of %d" % count, thing, *[(KEY, name, name) for name in names[1::2]])
    holds("a dict of an object's", attributes(2)[0].__dict__, (KEY, "a0", "a0"), (KEY, "a1", "a1"))


def check_sequences():
    for count in (0, 1, 2, 20, 1000):
        things = held(*map(str, range(count)))
        wanted = [(INDEX, i, str(i)) for i in range(count)]
        for cls in (list, tuple, List, Tuple, TupleWithSlots):
            holds("%d in %s" % (count, cls.__name__), cls(things), *wanted)
        members = [(MEMBER, None, str(i)) for i in range(count)]
        for cls in (set, frozenset, Set, collections.deque):
            holds("%d in %s" % (count, cls.__name__), cls(things), *members)
    pair = collections.namedtuple("pair", "a b")(*held("0", "1"))
    holds("namedtuple", pair, (INDEX, 0, "0"), (INDEX, 1, "1"))
    grown = []
    for one in held(*map(str, range(20))):
        grown.append(one)
    del grown[3:17]
    holds("a list that has shrunk", grown, *[(INDEX, i, one.name) for i, one in enumerate(grown)])


def check_lengths():
    for count in (0, 1, 7, 300):
        for cls in (list, tuple, set, frozenset, collections.deque, List, Tuple, Set):
            thing = cls(range(count))
            check("length of %d in %s" % (count, cls.__name__), probe.probe_length(pointer(thing)), count + 1)
        for cls in (dict, Dict, collections.OrderedDict):
            thing = cls.fromkeys(range(count))
            check("length of %d in %s" % (count, cls.__name__), probe.probe_length(pointer(thing)), count + 1)
    for thing in (5, "text", Plain(), Held, b"bytes", len):
        check("length of %r" % (thing,), probe.probe_length(pointer(thing)), 0)
        check("bound of %r" % (thing,), probe.probe_bound(pointer(thing)), 0)


def check_bounds():
    for count in (0, 1, 7, 300):
        for bound in (0, 1, 8, 300, 5000, None):
            queue = collections.deque(range(count), bound)
            cached = functools.lru_cache(bound)(str)
            for number in range(count):
                cached(number)
            for name, thing, has in (("deque", queue, len(queue)), ("lru_cache", cached, cached.cache_info().currsize)):
                check("length of %s of %s" % (name, bound), probe.probe_length(pointer(thing)), has + 1)
                check("bound of %s of %s" % (name, bound), probe.probe_bound(pointer(thing)), 0 if bound is None else bound + 1)
    for cls in (list, tuple, set, dict, collections.OrderedDict):
        check("bound of %s" % cls.__name__, probe.probe_bound(pointer(cls())), 0)


def check_ints():
    value = ctypes.c_int64()
    numbers = {n for bits in range(0, 70) for n in (1 << bits, (1 << bits) - 1, (1 << bits) + 1)} | set(range(-10, 300))
    for n in sorted(numbers | {-n for n in numbers}):
        known = probe.probe_int(pointer(n), ctypes.byref(value))
        check("int %d" % n, value.value if known else None, n if abs(n) < 1 << 60 else None)
    table = {"name": Held("of the name"), "größe": 1, 5: 2}
    check("get", probe.probe_get(pointer(table), b"name"), id(table["name"]))
    check("get what is not there", probe.probe_get(pointer(table), b"nam"), None)


def check_attributes():
    class Mode:
        of_class = True

    class Slotted:
        __slots__ = ("training", "__dict__")

    modes = [Mode() for _ in range(40)]  # values that objects have without a dict, and dicts of their own
    for number, one in enumerate(modes):
        one.other, one.training = Held("other"), bool(number % 2)
        if number % 3 == 0:
            one.__dict__["late"] = 5
    with_slots = Slotted()
    with_slots.training, with_slots.late = False, True
    for one in modes:
        check("attribute", probe.probe_attribute(pointer(one), b"training"), id(one.training))
        check("attribute that another begins with", probe.probe_attribute(pointer(one), b"train"), None)
        check("attribute of the class", probe.probe_attribute(pointer(one), b"of_class"), None)
    check("attribute beside slots", probe.probe_attribute(pointer(with_slots), b"late"), id(True))
    for value, known in ((True, 1), (False, 0), (1, -1), (0, -1), (None, -1), ("True", -1), (Mode, -1)):
        check("bool %r" % (value,), probe.probe_bool(pointer(value)), known)


# ---- functions ---------------------------------------------------------------------------------------


def closures():
    outer, größe, unset = held("outer", "größe", "unset")

    def inner(argument):
        own = argument
        return lambda: (outer, größe, own)

    def of_empty_cell():
        return unset

    del unset
    holds("closure", inner, (CELL, "outer", "outer"), (CELL, "größe", "größe"))
    holds("closure of a closure", inner(Held("own")), (CELL, "outer", "outer"), (CELL, "größe", "größe"), (CELL, "own", "own"))
    holds("closure without a value", of_empty_cell)


def nothing():
    pass


def check_functions():
    a, b, c, d = held("a", "b", "c", "d")

    def positional(first, second=a, größe=b):
        pass

    def only_positional(first, second=a, /, third=b):
        pass

    def named(first, *rest, second=a, größe=b, third, **others):
        pass

    def both(first=a, *, second=b):
        shared = first
        return lambda: (shared, first, second)

    holds("defaults", positional, (DEFAULT, "second", "a"), (DEFAULT, "größe", "b"))
    holds("defaults of positional arguments", only_positional, (DEFAULT, "second", "a"), (DEFAULT, "third", "b"))
    holds("defaults of named arguments", named, (DEFAULT, "second", "a"), (DEFAULT, "größe", "b"))
    holds("defaults of both, in cells", both, (DEFAULT, "first", "a"), (DEFAULT, "second", "b"))
    holds("closure over arguments", both(c, second=d), (CELL, "shared", "c"), (CELL, "first", "c"), (CELL, "second", "d"))
    positional.attribute = c
    holds("attribute of a function", positional, (DEFAULT, "second", "a"), (DEFAULT, "größe", "b"),
          (ATTRIBUTE, "attribute", "c"))
    holds("a function without anything", nothing)
    closures()
    holds("lambda", lambda one=a: one, (DEFAULT, "one", "a"))
    cell = (lambda: a).__closure__[0]
    holds("cell", cell, (MEMBER, None, "a"))


class Methods:
    def method(self):
        pass

    @classmethod
    def of_class(cls):
        pass


def check_methods():
    owner = Methods()
    for bound, self in ((owner.method, owner), (Methods.of_class, Methods)):
        got = [(edge, address) for edge, _, address in edges_of(bound)]
        check("bound method", got, [(SELF, id(self)), (FUNCTION, id(bound.__func__))])
    one = Held("self")
    holds("method of a held one", types.MethodType(nothing, one), (SELF, None, "self"))


# ---- frames -------------------------------------------------------------------------------------------


def snapshot():
    """What Python has put into a dict when it was asked for all variables stays held by it, up to 3.12."""
    changed = Held("before")
    locals()
    changed = Held("after")
    got = [one[1:] for one in found(edges_of(sys._getframe()))]
    check("variable that has changed", got, [("changed", "after")] + [("changed", "before")] * (sys.version_info < (3, 13)))
    del changed


def variables(argument, default=None, *rest, named=None, **others):
    first, größe = held("first", "größe")
    here("variables")
    loop = None
    for loop in held("0", "1"):
        here("variable of a loop")
    del first
    here("a deleted variable")
    here_in_comprehension = [here("comprehension") for one in held("x")]
    assert here_in_comprehension
    first = größe
    here("two names for one")

    def inner(own):
        nonlocal größe
        größe = Held("changed")
        here("inner, by the cells of the outer one")
        return argument, own

    inner(Held("own"))
    here("with cells")
    del größe
    here("with an empty cell")


def many_variables():
    names = ["v%d" % i for i in range(300)]
    source = "def many():\n" + "".join("    %s = Held('%s')\n" % (name, name) for name in names) + "    here('many')\n"
    namespace = {"Held": Held, "here": here}
    exec(source, namespace)
    namespace["many"]()


def class_bodies():
    outer = Held("outer")

    class Body:
        attribute = Held("attribute")
        größe = Held("größe")
        check("class body", locals_of(sys._getframe()), {"attribute": "attribute", "größe": "größe", "outer": "outer"})
        seen = outer

        def method(self):
            return __class__

    holds("class", Body, (ATTRIBUTE, "attribute", "attribute"), (ATTRIBUTE, "größe", "größe"), (ATTRIBUTE, "seen", "outer"))


MODULE = """
value = Held("value")
flag = ctypes.c_int()
frame = sys._getframe()
check("module level", probe.probe_globals(pointer(frame), ctypes.byref(flag)), id(globals()))
check("module level is told", flag.value, 1)
check("variables at module level", locals_of(frame), {})
def function():
    frame = sys._getframe()
    check("globals", probe.probe_globals(pointer(frame), ctypes.byref(flag)), id(globals()))
    check("a function is not module level", flag.value, 0)
function()
"""


def module_globals():
    module = types.ModuleType("module")
    module.__dict__.update({one: globals()[one] for one in "Held check ctypes locals_of pointer probe sys".split()})
    exec(MODULE, module.__dict__)
    module.größe = Held("größe")
    holds("module", module, (ATTRIBUTE, "value", "value"), (ATTRIBUTE, "größe", "größe"))

    class Module(types.ModuleType):
        pass

    inheriting = Module("inheriting")
    inheriting.value = Held("value")
    holds("a module of a class of its own", inheriting, (ATTRIBUTE, "value", "value"))
    exec("check('exec with two dicts', locals_of(sys._getframe()), {'mine': 'mine'})", dict(module.__dict__),
         {"mine": Held("mine")})


def generate(argument):
    mine = Held("mine")
    yield 1
    mine = None
    other = Held("other")
    yield other


def delegate(argument):
    own = Held("own")
    yield from generate(argument)
    yield own


def run_itself():
    mine = Held("mine")
    check("running generator", locals_of(itself[0]), {"mine": "mine"})
    yield mine


itself = []


def hold_on_stack():
    """What a suspended frame has on its stack has no name, and is held all the same."""
    for _ in held("0", "1"):
        yield


def generators():
    running = generate(Held("argument"))
    check("generator, not begun", locals_of(running), {"argument": "argument"})
    holds("generator, not begun", running, (LOCAL, "argument", "argument"))
    next(running)
    check("generator", locals_of(running), {"argument": "argument", "mine": "mine"})
    holds("generator", running, (LOCAL, "argument", "argument"), (LOCAL, "mine", "mine"))
    next(running)
    check("generator, later", locals_of(running), {"argument": "argument", "other": "other"})
    for _ in running:
        pass
    check("generator, ended", locals_of(running), None)
    check("generator, ended, holds", edges_of(running), [])
    closed = generate(Held("argument"))
    next(closed)
    closed.close()
    check("generator, closed", locals_of(closed), None)
    itself.append(run_itself())
    next(itself[0])
    itself.clear()
    shared = Held("shared")
    expression = (shared for _ in range(2))
    next(expression)
    holds("generator expression", expression, (LOCAL, "shared", "shared"))
    outer = delegate(Held("argument"))
    next(outer)
    inner = outer.gi_yieldfrom
    holds("generator that delegates", outer, (LOCAL, "argument", "argument"), (LOCAL, "own", "own"))
    check("to which it delegates", [one for one in edges_of(outer) if one[2] == id(inner)], [(MEMBER, None, id(inner))])
    loop = hold_on_stack()
    next(loop)
    iterators = [address for edge, _, address in edges_of(loop) if edge == MEMBER]
    check("iterator of a loop", [type(python_object(one)).__name__ for one in iterators], ["list_iterator"])


@types.coroutine
def pause():
    yield


async def wait(argument):
    mine = Held("mine")
    await pause()
    return mine, argument


async def wait_for_another(argument):
    own = Held("own")
    return await wait(argument), own


async def generate_later(argument):
    mine = Held("mine")
    yield mine
    await pause()
    yield argument


def coroutines():
    waiting = wait(Held("argument"))
    holds("coroutine, not begun", waiting, (LOCAL, "argument", "argument"))
    waiting.send(None)
    holds("coroutine", waiting, (LOCAL, "argument", "argument"), (LOCAL, "mine", "mine"))
    waiting.close()
    check("coroutine, closed", edges_of(waiting), [])
    outer = wait_for_another(Held("argument"))
    outer.send(None)
    inner = outer.cr_await
    holds("coroutine that awaits", outer, (LOCAL, "argument", "argument"), (LOCAL, "own", "own"))
    check("which it awaits", [one for one in edges_of(outer) if one[2] == id(inner)], [(MEMBER, None, id(inner))])
    outer.close()
    later = generate_later(Held("argument"))
    holds("async generator, not begun", later, (LOCAL, "argument", "argument"))
    for _ in range(2):
        try:
            later.__anext__().send(None)
        except StopIteration:
            pass
        holds("async generator", later, (LOCAL, "argument", "argument"), (LOCAL, "mine", "mine"))


def fail(argument, depth):
    mine = Held("mine %d" % depth)
    if depth:
        fail(argument, depth - 1)
    raise Error(mine)


def tracebacks():
    try:
        fail(Held("argument"), 2)
    except Error as error:
        kept = error
    traceback, depth = kept.__traceback__.tb_next, 2
    check("traceback has a next", (MEMBER, None, id(traceback)) in edges_of(kept.__traceback__), True)
    while traceback:
        mine = "mine %d" % depth
        holds("traceback", traceback, (LOCAL, "argument", "argument"), (LOCAL, "mine", mine))
        holds("frame object", traceback.tb_frame, (LOCAL, "argument", "argument"), (LOCAL, "mine", mine))
        traceback, depth = traceback.tb_next, depth - 1
    kept.attribute = Held("attribute")
    holds("exception", kept, (ATTRIBUTE, "attribute", "attribute"))
    check("exception has a traceback", (MEMBER, None, id(kept.__traceback__)) in edges_of(kept), True)
    frame = kept.__traceback__.tb_next.tb_frame
    frame.clear()
    holds("a frame that was cleared", frame)


def check_frames():
    snapshot()
    each_look(lambda: variables(*held("argument", "default", "rest"), named=Held("named"), more=Held("more")))
    each_look(many_variables)
    class_bodies()
    module_globals()
    generators()
    coroutines()
    tracebacks()


# ---- all objects there are ------------------------------------------------------------------------------


def reachable(thing, steps=3):
    """Addresses that the collector finds from an object, through what it keeps its own in."""
    if isinstance(thing, dict):  # one that belongs to an object leaves it to that to tell the values
        return {id(one) for pair in thing.items() for one in pair} | {id(one) for one in gc.get_referents(thing)}
    through = (dict, tuple, type((lambda: thing).__closure__[0]), types.FrameType)
    seen, latest = set(), [thing]
    for _ in range(steps):
        latest = [held for one in latest for held in gc.get_referents(one) if id(held) not in seen]
        seen.update(map(id, latest))
        latest = [one for one in latest if isinstance(one, through)]
    return seen


def compare_all():
    """Nothing is told that the collector does not know of; traversing tells exactly what it knows."""
    things = [one for one in gc.get_objects() if type(one) is not types.FrameType and one is not buffer]
    gc.disable()
    wrong, differing, nr = collections.Counter(), collections.Counter(), 0
    for thing in things:
        if thing is things or thing is Held.known:
            continue
        nr += 1
        known = sorted(id(one) for one in gc.get_referents(thing))
        count = probe.probe_traverse(pointer(thing), buffer, ROOM)
        if count <= ROOM and sorted(buffer[i].object for i in range(count)) != known:
            differing[type(thing).__name__] += 1
        addresses = {buffer[i].object for i in range(min(ROOM, probe.probe_each(pointer(thing), buffer, ROOM)))}
        if addresses - set(known) and addresses - reachable(thing):
            wrong[type(thing).__name__] += 1
    check("what objects hold", dict(wrong), {})
    check("what traversing tells", dict(differing), {})
    check("objects compared", nr > 3000, True)


def check_holding():
    class Own:
        pass

    for thing in (Own(), Own, int, [], {}, (), 5, "text", b"bytes", 1.5, len, None, nothing, object(), print):
        check("can %r hold anything" % (thing,), bool(probe.probe_holds(pointer(thing))), gc.is_tracked(thing)
              or (type(thing).__flags__ & HAVE_GC != 0 and not isinstance(thing, type)))


# ---- a walk through all of them -------------------------------------------------------------------------


def way_to(address):
    """The edges that a walk came by, from the root on; None: it was not met."""
    edges, meeting = [], Meeting()
    while address:
        if not probe.probe_met(ctypes.c_void_p(address), ctypes.byref(meeting)):
            return None
        edges.insert(0, meeting.edge)
        address = meeting.parent
    return edges


def plant():
    """Objects that no variable leads to, by what does: their addresses."""
    cycle, by_library, by_module = Plain(), Plain(), Plain()
    cycle.itself = cycle
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(by_library))
    sys.modules["planted"] = types.ModuleType("planted")
    sys.modules["planted"].table = {"key": by_module}
    return {"cycle": id(cycle), "library": id(by_library), "module": id(by_module)}


def walk_all(freeze):
    """What gc.freeze() has set apart is still there."""
    gc.collect()
    gc.disable()
    planted = plant()
    begun = set(map(id, gc.get_objects()))
    if freeze:
        gc.freeze()
    mine = Plain()
    nr = probe.probe_walk()
    gc.unfreeze()
    check("all objects were looked at", nr > 3000, True)
    check("way to a variable", way_to(id(mine)), [LOCAL])
    check("way to a cycle", way_to(planted["cycle"]), [CYCLE])
    check("way to what a library holds", way_to(planted["library"]), [NATIVE])
    check("way to a module", way_to(planted["module"]), [GLOBAL, ATTRIBUTE, KEY])
    unmet = [one for one in gc.get_objects() if id(one) in begun and way_to(id(one)) is None]
    check("objects that were not met", collections.Counter(type(one).__name__ for one in unmet), {})


if __name__ == "__main__":
    why = probe.probe_find()
    if why:
        print("objects cannot be read: " + why.decode())
        sys.exit(2)
    check_attributes()
    check_attributes_of_others()
    check_slots()
    check_dicts()
    check_sequences()
    check_lengths()
    check_bounds()
    check_ints()
    check_attributes()
    check_functions()
    check_methods()
    check_holding()
    check_frames()
    compare_all()
    walk_all(False)
    walk_all(True)
    print("%d checks, %d bad" % (checks, len(bad)))
    sys.stdout.flush()
    sys.exit(1 if bad else 0)
