# SPDX-License-Identifier: MIT
"""torchvision detection: two training steps, then an evaluation.

usage: detect.py [--proposals] [fasterrcnn|maskrcnn]

The first stage proposes boxes to the second by scores, and compares them with the true ones by areas, that no kernel
computes here. With --proposals the host makes as many boxes as a first stage does, a quarter of them true ones.
"""

import argparse
import os

import torch
import torchvision

from ledger import print_ledger

SIZE, STEPS = (320, 400), 2

parser = argparse.ArgumentParser()
parser.add_argument("model", nargs="?", default="fasterrcnn", choices=["fasterrcnn", "maskrcnn"])
parser.add_argument("--proposals", action="store_true")
options = parser.parse_args()


def image():
    return torch.rand(3, *SIZE).cuda()


def target():
    boxes = torch.tensor([[10.0, 10, 100, 100], [50, 60, 200, 210]])
    masks = torch.zeros(2, *SIZE, dtype=torch.uint8)
    masks[:, 60:100, 60:100] = 1
    found = {"boxes": boxes, "labels": torch.tensor([1, 2]), "masks": masks}
    return {name: tensor.cuda() for name, tensor in found.items()}


torch.manual_seed(0)
make = getattr(torchvision.models.detection, f"{options.model}_resnet50_fpn")
model = make(weights=None, weights_backbone=None, min_size=320, max_size=640).cuda()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01, momentum=0.9)
if options.proposals:

    def proposed(images, *_):
        corners = torch.rand(len(images), model.rpn.post_nms_top_n(), 2) * 200
        boxes = torch.cat([corners, corners + 20 + torch.rand_like(corners) * 80], dim=2).cuda()
        return list(boxes), [torch.ones(len(one)).cuda() for one in boxes]

    def compared(boxes, *_):
        counts = [len(one) for one in boxes]
        labels = [(torch.arange(n) < n // 4).long().cuda() for n in counts]
        return [torch.zeros(n, dtype=torch.int64).cuda() for n in counts], labels

    model.rpn.filter_proposals = proposed
    model.roi_heads.assign_targets_to_proposals = compared

for step in range(STEPS):
    losses = model([image(), image()], [target(), target()])
    sum(losses.values()).backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}:", {name: loss.item() for name, loss in losses.items()})

model.eval()
with torch.no_grad():
    found = model([image()])
print([{name: tuple(tensor.shape) for name, tensor in one.items()} for one in found])

print_ledger(pid=os.getpid())
