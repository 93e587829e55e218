# SPDX-License-Identifier: MIT
"""Small results that programs decide by, computed on the host: no kernel runs on a simulated GPU.

Part of libsimgpu: values.c runs this text once, in a namespace of its own that has the functions `expect`, `memory`,
`known`, `written`, `cleared`, `unknown`, `install` and `switch_off` (values.h documents them). It puts a dispatch mode
under all modes of the program. For each operator that has a *rule* here, the rule gets the arguments and returns None,
or a generator that yields None where the operator itself is to be called, and (arguments, keywords) where the same is
to be called on the host; it is sent the results. The operator itself always runs: what it allocates is not changed.

Device memory is host memory here, so a CPU tensor over the same bytes is all it takes to read or write it. Nothing is
allocated or copied on the device. A result is *known* when all that it was computed from is known: written by the
host, or computed here from what was. What is not known is computed as well, from zeros, so that it fits together:
integers and booleans. Of floating-point tensors those of one element are computed, and only where they are known.
"""

import atexit
import os
import sys
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

LIMIT = 1 << 20  # elements: a batch of tokens, or what says which of them each expert gets; larger ones are data
WATCHED = 16  # elements of a floating-point tensor that a program may read to decide something

Tensor = torch.Tensor
INTEGERS = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
FLOATS = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
MASKS = (torch.bool, torch.uint8)
CPU = torch.device("cpu")
strided = torch.strided
capturing = torch._C._cuda_isCurrentStreamCapturing
nr_modes = torch._C._len_torch_dispatch_stack
program_defined = torch._library.custom_ops.OPDEFS  # operators that a program has written in Python

# ---- device memory as host tensors -----------------------------------------------------------


def host(t):
    """A CPU tensor over the memory of device tensor `t`."""
    sizes, strides = t.shape, t.stride()
    span = 1
    for size, stride in zip(sizes, strides):
        if not size:
            return torch.empty(sizes, dtype=t.dtype, device=CPU)
        span += (size - 1) * stride
    flat = torch.frombuffer(memory(t.data_ptr(), span * t.element_size()), dtype=t.dtype)
    return flat.as_strided(sizes, strides)


def place(t):
    """What `known`, `written` and `unknown` want to be told of a tensor."""
    return t.data_ptr(), t.element_size(), t.shape, t.stride()


def is_small(t):
    return t.dtype in INTEGERS and t.layout is strided and t.numel() <= LIMIT


def is_number(t):
    """One floating-point number: a step counter, a learning rate, a scale. It is computed where it is known."""
    return t.numel() == 1 and t.dtype in FLOATS and t.layout is strided


def is_ours(t):
    return is_small(t) or is_number(t)


def are_known(tensors):
    return all(known(*place(t)) for t in tensors if t.is_cuda)


def tensors_in(args, keywords):
    """The tensors among an operator's arguments, and in lists among them: they nest no deeper."""
    found = []
    for value in (*args, *keywords.values()):
        if isinstance(value, Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            found += [one for one in value if isinstance(one, Tensor)]
    return found


def on_host(args, keywords, copies=None):
    """The arguments for the host: device tensors by their memory, or by what `copies` has for their ids."""

    def one(value):
        if isinstance(value, Tensor):
            if copies and id(value) in copies:
                return copies[id(value)]
            return host(value) if value.is_cuda and is_ours(value) else value
        if type(value) in (list, tuple):
            return [one(each) for each in value]
        return CPU if isinstance(value, torch.device) else value

    keywords = {name: one(value) for name, value in keywords.items() if name != "pin_memory"}
    return tuple(one(value) for value in args), keywords


def store(results, values, is_true):
    """Write the host's `values` to where the operator's `results` are."""
    if isinstance(results, Tensor):
        results, values = [results], [values]
    if type(results) not in (list, tuple) or type(values) not in (list, tuple):
        return
    for result, value in zip(results, values):
        if not isinstance(result, Tensor) or not isinstance(value, Tensor):
            continue
        if not is_small(result) and not (is_true and is_number(result)):
            continue
        if result.shape != value.shape or result.dtype != value.dtype or not result.numel():
            continue
        if result.is_cuda:
            host(result).copy_(value)
            written(*place(result), is_true)
        else:
            result.copy_(value)


def is_computing(device):
    """Whether operators on that device do now what they say, instead of being traced or captured."""
    return device.type == "cuda" and not nr_modes() and not capturing()


def are_for_us(tensors, keywords):
    """Whether there is something to compute from these arguments."""
    if not all(map(is_ours, tensors)):
        return False
    device = keywords.get("device")
    for t in tensors:
        if t.is_cuda:
            device = t.device
    return device is not None and is_computing(device)


def may_compute(tensors, is_true):
    """Integers are computed even from what is not known, floating-point numbers are not: a loss stays 0."""
    return is_true or all(t.dtype in INTEGERS for t in tensors)


# ---- what rules do ---------------------------------------------------------------------------


def compute(args, keywords, is_true, reads=()):
    """Run the operator, whose results' shapes are known then: small arguments may have large results."""
    expect(*(reads or (is_true,)))
    results = yield None
    outputs = [results] if isinstance(results, Tensor) else results
    if type(outputs) not in (list, tuple):
        return
    outputs = [t for t in outputs if isinstance(t, Tensor)]
    if any(t.numel() > LIMIT for t in outputs) or not any(map(is_ours, outputs)):
        return
    values = yield on_host(args, keywords)
    if values is not None:
        store(results, values, is_true)


def overwrite(args, keywords, is_true, targets, reads=()):
    """Compute what is written to `targets` before the operator runs: a copy inside it may write there already."""
    copies = {id(t): host(t).clone() if t.is_cuda else t.clone() for t in targets}
    values = yield on_host(args, keywords, copies)
    expect(*(reads or (is_true,)))
    yield None
    if values is not None:
        for t in targets:
            store(t, copies[id(t)], is_true)


def change(args, keywords, targets):
    """Compute known numbers where they are: what copies the operator makes, the host makes again."""
    yield None
    yield on_host(args, keywords)
    for t in targets:
        written(*place(t), True)


def forget(t):
    """A kernel writes there what we do not compute, now or whenever a graph is replayed."""
    if t.is_cuda and not nr_modes():
        unknown(*place(t))


def only_read(reads):
    """The operator's results are not ours to compute, but it reads what we know."""
    expect(*reads)
    yield None


# ---- rules -----------------------------------------------------------------------------------


def first_of(args):
    """The first tensor among positional arguments, if it is the first of them."""
    first = args[0] if args else None
    if type(first) in (list, tuple):
        first = first[0] if first else None
    return first if isinstance(first, Tensor) else None


def pure(args, keywords, reads=()):
    """An operator that writes nothing but its results."""
    first = first_of(args)
    if first is not None:
        if (first.dtype not in INTEGERS and first.numel() != 1) or not (first.is_cuda or "device" in keywords):
            return None
    tensors = tensors_in(args, keywords)
    if not are_for_us(tensors, keywords):
        return None
    is_true = are_known(tensors)
    return compute(args, keywords, is_true, reads) if may_compute(tensors, is_true) else None


def writing(schema, is_random):
    """The rule of an operator that writes some of its arguments. Random ones would use the program's generator."""
    writes = [(at, a) for at, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    positions = [at for at, a in writes if not a.kwarg_only]
    names = [a.name for at, a in writes if a.kwarg_only]
    is_replacing = not positions or schema.name in ("aten::copy_", "aten::fill_")  # whatever was there before

    def rule(args, keywords, reads=()):
        targets = [args[at] for at in positions if at < len(args)] + [keywords[n] for n in names if n in keywords]
        first = targets[0] if targets else None
        if not isinstance(first, Tensor) or first.layout is not strided:
            return None
        if first.dtype not in INTEGERS and first.numel() != 1:
            if first.numel() <= WATCHED:
                forget(first)
            return None
        tensors = tensors_in(args, keywords)
        if are_for_us(tensors, keywords) and not is_random:
            sources = [t for t in tensors if not any(t is one for one in targets)] if is_replacing else tensors
            is_true = are_known(sources)
            if may_compute(tensors, is_true):
                return overwrite(args, keywords, is_true, targets, reads)
        if first.is_contiguous() or first.numel() <= LIMIT:
            forget(first)
        return None

    return rule


def changing(schema):
    """The rule of an operator that writes lists of tensors. It is there for lists of numbers: an optimizer's steps."""
    positions = [at for at, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]

    def rule(args, keywords):
        first = first_of(args)
        if first is None or first.numel() != 1 or not first.is_cuda:
            return None
        tensors = tensors_in(args, keywords)
        if are_for_us(tensors, keywords) and are_known(tensors):
            return change(args, keywords, tensors_in([args[at] for at in positions], {}))
        for t in args[0]:
            if is_number(t):
                forget(t)
        return None

    return rule


def clearing(args, keywords):
    """Zeros of any type: device memory reads 0 anyway, where nobody wrote."""
    like = first_of(args)
    device = keywords.get("device") or (like.device if like is not None else None)
    return clear() if device is not None and is_computing(device) else None


def clear():
    result = yield None
    if result.layout is strided and (result.is_contiguous() or result.numel() <= LIMIT):
        cleared(*place(result))


def filling(value_of):
    """The rule of an operator whose result is one value everywhere, whatever it is given for its shape."""

    def fill(args):
        result = yield None
        if is_ours(result) and result.numel():
            host(result).fill_(value_of(args))
            written(*place(result), True)

    def rule(args, keywords):
        like = first_of(args)
        device = keywords.get("device") or (like.device if like is not None else None)
        if device is None or not is_computing(device):
            return None
        return fill(args) if value_of(args) else clear()

    return rule


def counting(count, rule):
    """An operator that reads from the device how large its result is: what `count` says of the host's arguments."""

    def counted(args, keywords):
        first = first_of(args)
        if first is None or not first.is_cuda or not is_small(first) or not is_computing(first.device):
            return None
        sources = [t for t in tensors_in(args, {}) if is_small(t)]
        reads = are_known(sources), *(int(value) for value in count(*on_host(args, keywords)[0]))
        return rule(args, keywords, reads) or only_read(reads)

    return counted


def masking(rule):
    """Indexing: boolean masks among the indices are expanded by nonzero inside the operator."""

    def masked(args, keywords):
        masks = [t for t in args[1] if isinstance(t, Tensor) and t.dtype in MASKS and t.is_cuda]
        if not masks or not all(map(is_small, masks)) or not is_computing(masks[0].device):
            return rule(args, keywords)
        reads = are_known(masks), *(int(host(mask).count_nonzero()) for mask in masks)
        return rule(args, keywords, reads) or only_read(reads)

    return masked


def selecting(args, keywords):
    """masked_select: the mask and the tensor are broadcast to each other."""
    t, mask = args[:2]
    if not mask.is_cuda or not is_small(mask) or not mask.numel() or not is_computing(mask.device):
        return None
    times = torch.broadcast_shapes(t.shape, mask.shape).numel() // mask.numel()
    reads = are_known([mask]), int(host(mask).count_nonzero()) * times
    return pure(args, keywords, reads) or only_read(reads)


def coalescing(args, keywords):
    """Sparse tensors: how many there are of different indices."""
    t = args[0]
    if t.layout is not torch.sparse_coo or not t.is_cuda or not is_computing(t.device):
        return None
    indices = t._indices()
    return coalesce(indices) if is_small(indices) else None


def coalesce(indices):
    is_true = are_known([indices])
    unique = torch.unique(host(indices), dim=1)
    expect(is_true, unique.shape[1])
    result = yield None
    store(result._indices(), unique, is_true)


def histogram(args, keywords):
    """histc, which the CPU does not have for integers: mixtures of experts count their tokens with it."""
    t, bins, low, high = (*args, *(100, 0, 0)[len(args) - 1 :])
    if not isinstance(t, Tensor) or not t.is_cuda or not is_small(t) or not is_computing(t.device) or keywords:
        return None
    return count_bins(t, bins, low, high)


def count_bins(t, bins, low, high):
    is_true, values = are_known([t]), host(t)
    expect(is_true, *([int(values.min()), int(values.max())] if low == high and values.numel() else []))
    result = yield None
    store(result, values.double().histc(bins, low, high).to(t.dtype), is_true)


def checking(args, keywords):
    """Whether arguments are what a distribution can have: what nobody knows is taken to be valid."""
    t = args[0]
    return assume_valid(t) if t.is_cuda and t.layout is strided and is_computing(t.device) else None


def checking_in_distributions(args, keywords):
    """all(): what checks in torch.distributions read; elsewhere as any reduction."""
    caller = sys._getframe(1).f_globals.get("__name__", "")
    if len(args) > 1 or keywords or not caller.startswith("torch.distributions."):
        return pure(args, keywords)
    return checking(args, keywords)


def drawing(args, keywords):
    """normal: it reads, twice, whether no deviation is negative."""
    deviation = args[1] if len(args) > 1 else None
    if not isinstance(deviation, Tensor) or not deviation.is_cuda or not is_computing(deviation.device):
        return None
    is_true = is_number(deviation) and are_known([deviation])
    is_valid = int(not is_true or bool((host(deviation) >= 0).all()))
    return only_read((is_true, is_valid, is_valid))


def assume_valid(t):
    is_true = is_small(t) and are_known([t])
    value = torch.tensor(not is_true or bool(host(t).all()))
    result = yield None
    store(result, value, is_true)


sampler = torch.Generator(device=CPU)


def sampling(sample):
    """
    Random integers: a sample like any other, never known. It is the same in every run, and when a program sets the
    device's generator back, as recomputation does.
    """

    def draw(generator, args):
        # Its last eight bytes count the numbers drawn since it was seeded. The seed is not always the program's.
        drawn = int.from_bytes(bytes(generator.get_state()[8:].tolist()), "little")
        result = yield None
        if is_small(result) and result.numel():
            sampler.manual_seed(drawn)
            store(result, sample(torch.empty(result.shape, dtype=result.dtype, device=CPU), *args), False)

    def rule(args, keywords):
        like = first_of(args)
        device = keywords.get("device") or (like.device if like is not None else None)
        if device is None or not is_computing(device):
            return None
        index = torch.cuda.current_device() if device.index is None else device.index
        return draw(keywords.get("generator") or torch.cuda.default_generators[index], args)

    return rule


def sample_range(t, *bounds):
    """`bounds`: what random_ takes."""
    return t.random_(*bounds, generator=sampler)


below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.Python)


def reentering(function):
    """An operator that a program defines in Python: the operators that it calls come here, too."""

    def enter(mode, keys, args, keywords):
        torch._C._push_on_torch_dispatch_stack(mode)
        try:
            yield function._handle.redispatch_boxed, (keys, *args), keywords
        finally:
            torch._C._pop_torch_dispatch_stack(None)

    def rule(args, keywords):
        keys = None
        for t in tensors_in(args, keywords):
            keys = torch._C._dispatch_keys(t) if keys is None else keys | torch._C._dispatch_keys(t)
        return enter(modes[0], keys & below, args, keywords) if keys is not None and not nr_modes() else None

    return rule


# ---- which operator has which rule -----------------------------------------------------------

# Nothing but floating-point tensors, or nothing that has a value or memory: the frequent ones.
WITHOUT = """_local_scalar_dense _efficientzerotensor record_stream set_ resize_ resize_as_ is_pinned _pin_memory
lift_fresh mm addmm bmm baddbmm linear convolution _convolution native_layer_norm native_batch_norm cudnn_batch_norm
native_group_norm _fused_rms_norm embedding gelu silu relu relu_ sigmoid tanh exp log sqrt rsqrt sin cos _softmax
_log_softmax native_dropout nll_loss_forward nll_loss2d_forward mse_loss normal_ uniform_ bernoulli_ multinomial
_fused_adamw_ _fused_adam_ _fused_sgd_""".split()
WITHOUT_PREFIX = ("empty", "new_empty", "_scaled_dot_product", "_cudnn_", "_thnn_", "rand")

FILLING = {
    "ones": lambda args: 1,
    "ones_like": lambda args: 1,
    "new_ones": lambda args: 1,
    "full": lambda args: args[1],
    "full_like": lambda args: args[1],
    "new_full": lambda args: args[2],
}

SAMPLING = {
    "randint": lambda t, *args: sample_range(t, *((0, args[0]) if len(args) < 3 else args[:2])),
    "randint_like": lambda t, *args: sample_range(t, *((0, args[1]) if len(args) < 3 else args[1:3])),
    "randperm": lambda t, n: torch.randperm(n, generator=sampler, dtype=t.dtype),
    "random_": lambda t, *args: sample_range(t, *args[1:]),
}


def different(t, *_):
    """Of booleans, the operator reads how many are true."""
    return [t.count_nonzero() if t.dtype is torch.bool else t.unique().numel()]


def consecutive(t, dim):
    return [t.unique_consecutive(dim=dim).shape[dim or 0]]


COUNTING = {
    "nonzero": lambda t: [t.count_nonzero()],
    "_to_sparse": lambda t, *_: [t.count_nonzero()],
    "_unique": different,
    "_unique2": different,
    "unique_dim": lambda t, dim, *_: [t.unique(dim=dim).shape[dim]],
    "unique_consecutive": lambda t, inverse=False, counts=False, dim=None: consecutive(t, dim),
    "bincount": lambda t, *_: [] if not t.numel() else [t.max()] if t.dtype is torch.uint8 else [t.min(), t.max()],
    "repeat_interleave": lambda repeats, *_: [repeats.sum(), (repeats >= 0).all()],
    "isin": lambda t, among, *_: [t.unique().numel(), among.unique().numel()],
    "equal": lambda t, other: [torch.equal(t, other)],
}


SPECIAL = {
    "zeros": clearing,
    "zeros_like": clearing,
    "new_zeros": clearing,
    "zero_": clearing,
    "_coalesce": coalescing,
    "_is_all_true": checking,
    "all": checking_in_distributions,
    "normal": drawing,
    "histc": histogram,
    "masked_select": selecting,
}


def rule_of(base, schema, is_random):
    if base in WITHOUT or base.endswith("_backward"):
        return None
    if base in SAMPLING:
        return sampling(SAMPLING[base])
    if base in FILLING:
        return filling(FILLING[base])
    if base.startswith(WITHOUT_PREFIX):
        return None
    if base in SPECIAL:
        return SPECIAL[base]
    writes = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
    if base.startswith(("_foreach_", "_amp_foreach_")):
        return changing(schema) if writes else None
    if not writes and (is_random or any(r.alias_info is not None for r in schema.returns)):
        return None  # a sample, or a view
    rule = writing(schema, is_random) if writes else pure
    if base in COUNTING:
        return counting(COUNTING[base], rule)
    if base in ("index", "_unsafe_index", "index_put", "_unsafe_index_put", "index_put_", "_index_put_impl_"):
        return masking(rule)
    return rule if writes or any("Tensor" in str(r.type) for r in schema.returns) else None


def classify(function):
    """(what to call for it, its rule or None, whether to keep torch function modes from seeing it)."""
    if not isinstance(function, torch._ops.OpOverload):
        return function, None, False
    schema = function._schema
    if schema.name in program_defined:
        return function._op, reentering(function), False
    if not schema.name.startswith("aten::"):
        return function._op, None, False
    return function._op, rule_of(schema.name[6:], schema, torch.Tag.nondeterministic_seeded in function.tags), True


def mend(function, args, error_type, error):
    """Arguments with tensors for the numbers where the operator wants tensors, if that is what it says."""
    if error_type is not RuntimeError or "Expected a value of type 'Tensor" not in str(error):
        return None
    wanted = [isinstance(a.type, torch.TensorType) for a in function._schema.arguments]
    return tuple(
        torch.tensor(value) if want and isinstance(value, (bool, int, float, complex)) else value
        for value, want in zip(args, wanted)
    )


# ---- on and off ------------------------------------------------------------------------------


class Values(TorchDispatchMode):
    supports_higher_order_operators = True


def stack():
    return [torch._C._get_dispatch_stack_at(at) for at in range(nr_modes())]


def under_the_others(change):
    """Take the program's modes off, change what lies under them, and put them back in their order."""
    taken = []
    for top in reversed(stack()):
        if isinstance(top, Values) or getattr(top, "_mode_key", None) is not None:
            break
        taken.append(torch._C._pop_torch_dispatch_stack(None))
    change()
    for mode in reversed(taken):
        torch._C._push_on_torch_dispatch_stack(mode)


modes = []  # ours, once it is there


registered = []


def leave_record_function_alone():
    """A range that record_function begins must not end with the range that PyTorch draws around our mode."""
    profiler = torch.library.Library("profiler", "IMPL")
    registered.append(profiler)  # what it registers goes when it does
    for name in ("_record_function_enter", "_record_function_enter_new", "_record_function_exit",
                 "_record_function_exit._RecordFunction"):
        profiler.impl(name, torch.library.fallthrough_kernel, "Python")


def switch_on():
    mode = Values()
    modes.append(mode)
    mode.__torch_dispatch__ = install(
        classify, mode, torch._C._len_torch_function_stack, torch._C.DisableTorchFunction, Tensor, mend
    )
    under_the_others(lambda: torch._C._push_on_torch_dispatch_stack(mode))


def take_off():
    """Take the mode off this thread; true when it is not there any more."""
    if any(isinstance(mode, Values) for mode in stack()):
        under_the_others(lambda: torch._C._pop_torch_dispatch_stack(None))
    return True


def replace_everywhere(old, new):
    """Replace a function in the modules of torch.compile's front end that have it by whatever name."""
    names = ("torch._dynamo.eval_frame", "torch._dynamo.decorators")
    for module in (torch._C._dynamo.eval_frame, *map(sys.modules.get, names)):
        for name, value in list(vars(module).items()) if module else ():
            if value is old:
                setattr(module, name, new)


def watch_compile():
    """torch.compile compiles nothing under a dispatch mode: at the first call of anything compiled, we are gone."""
    original = torch._C._dynamo.eval_frame.set_eval_frame

    def set_eval_frame(callback):
        if callback is not None:
            switch_off()
            take_off()
            replace_everywhere(set_eval_frame, original)
        return original(callback)

    replace_everywhere(original, set_eval_frame)


def is_running(task):
    """Has this thread of ours, if it is one of backward's, anything to do? Its state follows its name."""
    try:
        with open(f"/proc/self/task/{task}/stat") as file:
            name, state = file.read().partition("(")[2].rsplit(") ", 1)
    except OSError:  # it has ended
        return False
    return name.startswith("pt_autograd_") and state[0] == "R"


def let_backward_end():
    """
    A thread of backward's lets go of our mode when the pass is over, and takes the interpreter's lock to do so. PyTorch
    aborts the program if Python has ended by then.
    """
    for _ in range(1000):
        time.sleep(0.001)  # without the lock
        if not any(map(is_running, os.listdir("/proc/self/task"))):
            break


if getattr(sys, "_is_gil_enabled", lambda: True)():  # the tables of values_dispatch.c are guarded by it
    watch_compile()
    leave_record_function_alone()
    switch_on()
    os.register_at_fork(after_in_child=take_off)
    atexit.register(let_backward_end)
