# SPDX-License-Identifier: MIT
"""Operators whose results are computed, on the device and on the host: prints, for each, both results and the values
that the host read of which the simulated GPU says that a kernel would have computed them."""

import json

import torch
from torch.nn import functional

from reads import reads

F = functional
LONG, BOOL, INT = torch.long, torch.bool, torch.int32


def run(device):
    """{name: function} with all arguments on `device`."""

    def tensor(values, dtype=LONG):
        return torch.tensor(values, dtype=dtype, device=device)

    def floats(*shape):
        return torch.zeros(*shape, device=device)

    x, y = tensor([3, 1, 3, 7, 1, 0]), tensor([1, 1, 2, 2, 5, 9])
    b, m = x > 2, tensor([[1, 2, 3], [1, 2, 3], [0, 5, 1]])

    def number(value, dtype=torch.float32):
        return torch.tensor(value, dtype=dtype, device=device)

    def assigned(target, key, value):
        target[key] = value
        return target

    return {
        "arithmetic": lambda: [x + y, x - 1, x * y, x // 2, x % 3, -x, x**2, torch.div(x, y, rounding_mode="floor")],
        "bits": lambda: [x & y, x | y, x ^ y, ~x, x << 1, b & ~b, b | b, b.logical_not()],
        "comparisons": lambda: [x > y, x == 3, x.ne(y), x.clamp(1, 4), torch.maximum(x, y), torch.isin(x, y)],
        "isin of many": lambda: torch.isin(x, torch.arange(100, device=device)),
        "reductions": lambda: [x.sum(), x.max(), x.argmax(), m.amax(1), m.sum(0), b.any(), b.all(), x.prod(), x.min(0)],
        "scans": lambda: [x.cumsum(0), m.cumsum(1), x.diff(), m.cummax(0)[0]],
        "conversions": lambda: [x.to(INT), b.long(), x.bool(), x.to(torch.uint8), b.int() + 1],
        "factories": lambda: [
            torch.arange(2, 9, 3, device=device),
            torch.full((2, 2), 7, device=device),
            torch.ones(3, dtype=BOOL, device=device),
            torch.zeros(2, dtype=LONG, device=device),
            torch.ones_like(floats(2), dtype=LONG),
            floats(1).new_ones(2, dtype=BOOL),
            torch.full_like(floats(2), 3, dtype=INT),
            torch.eye(2, dtype=LONG, device=device),
            torch.tril(torch.ones(3, 3, dtype=BOOL, device=device)),
        ],
        "joins": lambda: [torch.cat([x, y]), torch.stack([x, y]), x.repeat(2), F.pad(x, (1, 2), value=5), m.flip(0), m.roll(1)],
        "views": lambda: [m[:, 1], m.t().contiguous(), m[1:, ::2].reshape(-1), m.flatten()[3:], x.view(2, 3)],
        "where": lambda: [torch.where(b, x, y), torch.where(x > 100, 1, 2), x.masked_fill(b, -1)],
        "nonzero": lambda: [x.nonzero(), *torch.where(b), torch.argwhere(m > 2)],
        "index by mask": lambda: [x[b], m[m > 2], torch.masked_select(m, m > 1), m[b[:3]]],
        "index by numbers": lambda: [x[tensor([0, 3])], m.gather(1, m % 3), x.take(tensor([1, 5])), x.index_select(0, y[:2])],
        "masked floats": lambda: [floats(6)[b].shape, floats(6, 2)[b, 1:].shape, torch.masked_select(floats(6), b).shape],
        "assignment": lambda: [
            assigned(x.clone(), b, 9),
            assigned(x.clone(), b, tensor([7, 8, 9])),
            assigned(m.clone(), (slice(None), 1), tensor([4, 5, 6])),
            x.clone().add_(y).mul_(2),
            x.clone().scatter_(0, tensor([0, 2]), tensor([8, 9])),
            x.clone().index_add_(0, tensor([0, 0]), tensor([1, 1])),
            x.clone().index_put_((tensor([1, 2]),), tensor([5, 6])),
            x.clone().masked_scatter_(b, y),
            torch.zeros(3, dtype=LONG, device=device).copy_(x[:3]),
        ],
        "unique": lambda: [
            *torch.unique(x, return_inverse=True, return_counts=True),
            torch.unique(b),
            *torch.unique(m, dim=0, return_inverse=True, return_counts=True),
            *torch.unique_consecutive(y, return_inverse=True, return_counts=True),
            torch.unique_consecutive(m, dim=0),
        ],
        "counts": lambda: [torch.bincount(x), torch.bincount(x, minlength=20), x.count_nonzero(), F.one_hot(x)],
        "weighted bincount": lambda: torch.bincount(x, weights=floats(6)).shape,
        "histc": lambda: [n.long() for n in (torch.histc(x.int() if device == "cuda" else x.float(), 8, 0, 7),)],
        "repeat_interleave": lambda: [torch.repeat_interleave(x), torch.repeat_interleave(y, x), floats(6).repeat_interleave(x).shape],
        "sort": lambda: [x.sort()[0], x.sort(descending=True)[0], m.sort(dim=1)[0], x.topk(2)[0], torch.msort(y), x.argsort(stable=True)],
        "search": lambda: [torch.searchsorted(y, x), torch.bucketize(x, y)],
        "equal": lambda: [torch.equal(x, x.clone()), torch.equal(x, y), bool(b[0]), x.max().item(), x.tolist()],
        "ragged": lambda: [
            torch.nn.utils.rnn.pad_sequence([x, x[:2]], batch_first=True),
            torch.nested.nested_tensor([floats(2, 4), floats(3, 4)], layout=torch.jagged).offsets(),
            torch.split(x, [2, 4])[1],
        ],
        "coalesce": lambda: torch.sparse_coo_tensor(tensor([[0, 0, 1], [1, 1, 2]]), floats(3), (3, 3)).coalesce().indices(),
        "gradient through a mask": lambda: gradient_shape(floats(6, 2).requires_grad_(), b),
        "numbers": lambda: [
            number(1.5) + 1, 2 / number(4), number(2) ** 0.5, -number(3), number(7).reciprocal(), number(5.5).to(LONG),
            torch.full((), 0.1, device=device) * 3, torch.ones(1, device=device) - 0.25, x.sum().float() + x.sum() / 3,
            number(1.5, torch.half) * number(3, torch.bfloat16), number(2).double() / 3, number(2).to("cpu", torch.double),
            number(2) > 1, number(2) == 3, torch.maximum(number(2), number(float("inf"))), torch.where(b[0], 1.5, 2.5),
        ],
        "numbers overwritten": lambda: [
            number(1).add_(2), number(1).fill_(9), number(1).copy_(x[3]), number(3).mul_(number(2)).sub_(0.5).div_(4),
            number(1).zero_().add_(x.sum()), torch.mul(number(3), 2, out=number(0)), x.clone()[0].add_(number(3).long()),
        ],
        "lists of numbers": lambda: changed([number(1), torch.zeros(1, device=device), torch.ones((), device=device)], number),
        "gradient of a number": lambda: number_gradient(number(3).requires_grad_()),
        "forward gradient of a number": lambda: torch.func.jvp(lambda t: t * t * 3, (number(2),), (number(1),)),
        "many dimensions": lambda: [m[None, :, None].expand(2, 3, 4, 3).sum((0, 2)), m.permute(1, 0).clone()],
    }


def gradient_shape(t, mask):
    t[mask].sum().backward()
    return t.grad.shape


def number_gradient(number):
    for factor in (2, 4):
        (number * number * factor).backward()
    return number.grad


def changed(numbers, number):
    torch._foreach_add_(numbers, 1)
    torch._foreach_mul_(numbers, [2.0, 3.0, 4.0])
    torch._foreach_sub_(numbers, [number(0.5)] * 3)
    torch._foreach_add_(numbers, number(1.0), alpha=2.0)
    copies = [torch.zeros_like(t) for t in numbers]
    torch._foreach_copy_(copies, numbers)
    return numbers, copies


def plain(result):
    """Of tensors their lists, on the host."""
    if isinstance(result, torch.Tensor):
        return result.tolist()
    if isinstance(result, (list, tuple)):
        return [plain(one) for one in result]
    return result


device, host = run("cuda"), run("cpu")
table = {}
for name in device:
    (result, read), expected = reads(lambda: plain(device[name]())), plain(host[name]())
    table[name] = {"device": result, "host": expected, "reads": read}
print(json.dumps(table))
