# SPDX-License-Identifier: MIT
"""
Tensors and views of them, of many types and numbers of dimensions, until memory runs out. Prints {name: [bytes of its own
elements, holders]}.
"""

import json

import torch

DEVICE = "cuda"


class Shelf:
    """What has its attributes in no dict of its own."""

    __slots__ = ("slotted",)


class Box:
    pass


def main():
    box, shelf, kept, views = Box(), Shelf(), [], {}
    for dtype in (torch.uint8, torch.bool, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
                  torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn):
        views[str(dtype)] = torch.zeros(3, 5, 7, dtype=dtype, device=DEVICE)
    whole = torch.zeros(4, 6, 8, 10, device=DEVICE)
    views["scalar"] = torch.zeros((), device=DEVICE)
    views["row"], views["last"], views["turned"] = whole[1], whole[..., -1], whole.permute(3, 1, 0, 2)
    views["wide"] = torch.zeros(2, 1, device=DEVICE).expand(2, 1000)
    views["deep"] = torch.zeros(1, 2, 1, 3, 1, 2, 4, device=DEVICE)
    views["deep_part"] = views["deep"][:, 1:]
    views["with_graph"] = (torch.zeros(8, 8, device=DEVICE, requires_grad=True) * 2)[0]
    box.attribute = torch.zeros(2, 3, device=DEVICE)
    shelf.slotted = torch.zeros(3, 3, device=DEVICE)
    shared = torch.zeros(5, 3, device=DEVICE)
    kept += [shared]
    try:
        torch.empty(1 << 45, dtype=torch.uint8, device=DEVICE)
    except torch.OutOfMemoryError:
        pass
    own = {f"main().views['{name}']": one.numel() * one.element_size() for name, one in views.items()}
    own["main().whole"] = whole.numel() * whole.element_size()
    holders = {"main().box.attribute": 1, "main().shelf.slotted": 1, "main().kept[0]": 2}
    print(json.dumps({"own": own, "holders": holders}))


main()
