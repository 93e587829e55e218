# SPDX-License-Identifier: MIT
"""The value shadow beside everything else that stands between a program and its operators: prints a JSON object of what
each case got. It must be what an unshadowed program gets, with true values."""

import json
import threading

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

results = {}


def case(function):
    results[function.__name__] = function()


def numbers(n=5):
    return torch.arange(n, device="cuda")


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class FunctionLog(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function.__name__)
        return function(*args, **(kwargs or {}))


@case
def dispatch_modes():
    with Log() as outer, Log() as inner:
        found = (numbers() > 2).nonzero().shape[0]
    return found, inner.seen, outer.seen == inner.seen


@case
def function_mode():
    with FunctionLog() as log:
        x = torch.ones(3, device="cuda", requires_grad=True)
        torch.autograd.backward((x * 2).sum())
    return [name for name in log.seen if name in ("ones", "mul", "sum")], any("aten" in name for name in log.seen)


@case
def device_context():
    with torch.device("cuda"):
        return torch.arange(5).sum().item(), torch.ones(3, dtype=torch.bool).all().item()


@case
def no_grad_and_inference():
    with torch.no_grad():
        first = numbers().sum().item()
    with torch.inference_mode():
        return first, numbers().add_(1).tolist()


@case
def fake_tensors():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.randn(5, 5, device="cuda")
        shape = torch.matmul(x, x).shape, numbers().add(1).shape
    return shape, numbers(3).tolist()


@case
def checkpoints():
    def part(x, i):
        return x[i % 2 == 0].square().sum() + x[torch.randint(0, 2, (10,), device="cuda").bool()].sum()

    shapes = []
    for reentrant in False, True:
        x = torch.randn(10, 3, device="cuda", requires_grad=True)
        checkpoint(part, x, numbers(10), use_reentrant=reentrant).backward()
        shapes.append(x.grad.shape)
    return shapes


@case
def flop_counter():
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")
    return counter.get_total_flops()


@case
def functional_transforms():
    rows = torch.vmap(lambda row: row.sum() + row.max())(numbers(6).view(2, 3))
    return rows.tolist(), torch.func.grad(lambda x: x.square().sum())(torch.ones(3, device="cuda")).shape


@case
def scripts():
    @torch.jit.script
    def count(x):
        n = 0
        for i in range(int(x.max().item())):
            n += i
        return n

    traced = torch.jit.trace(lambda x: x * 2 + 1, numbers(3), check_trace=False)
    return count(numbers()), traced(numbers(4)).tolist()


@case
def graph_tracing():
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: x + numbers(3))(numbers(3))
    return [str(node.target) for node in graph.graph.nodes], graph(numbers(3)).tolist()


@case
def nested_tensors():
    rows = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged, device="cuda")
    return rows.offsets().tolist(), (rows * 2).values().shape, [row.shape for row in rows.unbind()]


@case
def sparse_gradients():
    bag = torch.nn.EmbeddingBag(10, 3, sparse=True, device="cuda")
    bag(torch.tensor([1, 2, 2, 4], device="cuda"), torch.tensor([0, 2], device="cuda")).sum().backward()
    return bag.weight.grad.coalesce().values().shape


@case
def graph_capture():
    x = numbers()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    graph.replay()
    return y.shape, x.tolist()


@case
def own_operators():
    @torch.library.custom_op("values_test::beyond", mutates_args=())
    def beyond(x: torch.Tensor) -> torch.Tensor:
        return x[x > 1].clone()

    class Pick(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(mask)
            return x[mask]

        @staticmethod
        def backward(ctx, gradient):
            (mask,) = ctx.saved_tensors
            result = torch.zeros(len(mask), device="cuda")
            result[mask] = gradient
            return result, None

    x = torch.ones(5, device="cuda", requires_grad=True)
    Pick.apply(x, numbers() > 1).sum().backward()
    return beyond(numbers()).tolist(), x.grad.shape


@case
def errors():
    messages = []
    for wrong in lambda: numbers(3) + numbers(4), lambda: numbers(3).view(7), lambda: numbers(3)[numbers(2) > 0]:
        try:
            wrong()
        except (RuntimeError, IndexError) as error:
            messages.append([type(error).__name__, str(error).split(" (")[0]])
    try:
        torch.empty(1 << 40, device="cuda")
    except torch.OutOfMemoryError:
        messages.append(torch.cuda.memory_stats()["num_ooms"])
    return messages


@case
def random_numbers():
    torch.manual_seed(0)
    host = torch.rand(2).tolist()
    torch.manual_seed(0)
    order = torch.randperm(5, device="cuda").tolist()
    undisturbed = torch.rand(2).tolist() == host
    torch.manual_seed(0)
    return undisturbed, torch.randperm(5, device="cuda").tolist() == order, sorted(order)


@case
def other_threads():
    """The mode is this thread's and that of its backward passes; a thread that the program starts has none."""
    seen = []
    thread = threading.Thread(target=lambda: seen.append(numbers().tolist()))
    thread.start()
    thread.join()
    return seen


@case
def what_is_left_behind():
    import sys

    return torch._C._len_torch_dispatch_stack(), [name for name in sys.modules if "simgpu" in name]


print(json.dumps(results))
