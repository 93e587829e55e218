# SPDX-License-Identifier: MIT
"""Trains a keyword spotter on log-mel features of recordings of different duration."""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

MELS = 80
FRAMES_PER_SECOND = 100


class Recordings(torch.utils.data.Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, index):
        frames = int(self.seconds[index] * FRAMES_PER_SECOND)
        return torch.zeros(frames, MELS), index % 12


def collate(items):
    features, labels = zip(*items, strict=True)
    return list(features), torch.tensor(labels)


class KeywordSpotter(nn.Module):
    def __init__(self, classes=12):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(MELS, 64, 5, stride=4, padding=2),
            nn.ReLU(),
            nn.Conv1d(64, 64, 5, stride=2, padding=2),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, classes)

    def forward(self, padded):
        return self.head(self.conv(padded.transpose(1, 2)).mean(dim=2))


def main():
    rng = random.Random(11)
    seconds = [rng.uniform(1.5, 9.0) for _ in range(64 * 24)]
    seconds[64 * 17 + 5] = 48 * 60.0
    loader = torch.utils.data.DataLoader(Recordings(seconds), batch_size=64, collate_fn=collate)

    model = KeywordSpotter().to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.CrossEntropyLoss()
    for features, labels in loader:
        padded = pad_sequence([f.to("cuda") for f in features], batch_first=True)
        loss = criterion(model(padded), labels.to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
