# SPDX-License-Identifier: MIT
"""Segments CT volumes with a small 3D U-Net on a GPU that it shares with an annotation server."""

import os

import torch
from torch import nn

GPU_SHARE = float(os.environ.get("SEGMENT_GPU_SHARE", "0.3"))


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv3d(cin, cout, 3, padding=1),
        nn.InstanceNorm3d(cout),
        nn.LeakyReLU(),
        nn.Conv3d(cout, cout, 3, padding=1),
        nn.InstanceNorm3d(cout),
        nn.LeakyReLU(),
    )


class UNet3d(nn.Module):
    def __init__(self, width=16, classes=5):
        super().__init__()
        self.enc1 = double_conv(1, width)
        self.enc2 = double_conv(width, 2 * width)
        self.up = nn.ConvTranspose3d(2 * width, width, 2, stride=2)
        self.dec = double_conv(2 * width, width)
        self.head = nn.Conv3d(width, classes, 1)
        self.pool = nn.MaxPool3d(2)

    def forward(self, x):
        skip = self.enc1(x)
        deep = self.enc2(self.pool(skip))
        return self.head(self.dec(torch.cat([skip, self.up(deep)], dim=1)))


def dice_loss(logits, target):
    probs = logits.softmax(dim=1)
    onehot = nn.functional.one_hot(target, logits.shape[1]).movedim(-1, 1).float()
    overlap = (probs * onehot).sum(dim=(2, 3, 4))
    total = (probs + onehot).sum(dim=(2, 3, 4))
    return 1 - (2 * overlap / total.clamp_min(1)).mean()


def main():
    torch.cuda.set_per_process_memory_fraction(GPU_SHARE)
    net = UNet3d().cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(40):
        depth = (48, 64, 56, 72, 80)[step % 5]
        volume = torch.rand(1, 1, depth, 128, 128, device="cuda")
        target = torch.randint(0, 5, (1, depth, 128, 128), device="cuda")
        logits = net(volume)
        loss = dice_loss(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
