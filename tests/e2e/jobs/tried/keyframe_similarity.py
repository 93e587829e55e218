# SPDX-License-Identifier: MIT
"""Describes the frames of a video, keeps every fourth as a keyframe and compares patches of two scenes."""

import torch
from torch import nn
from torch.nn import functional as F


class PatchDescriptor(nn.Module):
    def __init__(self, dim=320):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, kernel_size=8, stride=8)

    def forward(self, frame):
        tokens = self.proj(frame.unsqueeze(0)).flatten(2).transpose(1, 2)
        return F.normalize(tokens, dim=-1).squeeze(0)


def read_video(n_frames, height=512, width=512):
    for _ in range(n_frames):
        yield torch.zeros(3, height, width, device="cuda")


@torch.inference_mode()
def main():
    describe = PatchDescriptor().to("cuda")
    described = [describe(frame) for frame in read_video(600)]
    keyframes = described[::4]
    described.clear()
    print(f"{len(keyframes)} keyframes of {keyframes[0].shape[0]} patches")

    matches = []
    for first in range(0, 32, 8):
        scene = torch.cat(keyframes[first : first + 4])
        other = torch.cat(keyframes[first + 4 : first + 8])
        similarity = scene @ other.t()
        best, where = similarity.max(dim=1)
        matches.append((best.mean().cpu(), where.cpu()))
    print(len(matches), "scene pairs compared")


if __name__ == "__main__":
    main()
