# SPDX-License-Identifier: MIT
"""Plays with a MuZero-like planner: each move grows a small search tree of latent states."""

import math

import torch
from torch import nn


class Dynamics(nn.Module):
    def __init__(self, channels=128, actions=4):
        super().__init__()
        self.action_planes = nn.Embedding(actions, channels)
        self.net = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, state, action):
        plane = self.action_planes.weight[action].view(1, -1, 1, 1)
        return state + self.net(state + plane)


class Node:
    def __init__(self, state, parent=None, action=None):
        self.state = state
        self.parent = parent
        self.action = action
        self.children = {}
        self.visits = 0

    def depth(self):
        return 0 if self.parent is None else 1 + self.parent.depth()

    def backup(self):
        node = self
        while node is not None:
            node.visits += 1
            node = node.parent

    def select(self, actions=4):
        """The least visited leaf below this node, and the next action to try there."""
        node = self
        while len(node.children) == actions:
            node = min(node.children.values(), key=lambda c: c.visits - 0.1 * math.sqrt(node.visits))
        return node, len(node.children)


class Planner:
    def __init__(self, simulations=10):
        self.represent = nn.Conv2d(3, 128, 3, padding=1).cuda()
        self.dynamics = Dynamics().cuda()
        self.simulations = simulations

    @torch.no_grad()
    def choose(self, observation):
        root = Node(self.represent(observation))
        for _ in range(self.simulations):
            node, action = root.select()
            child = Node(self.dynamics(node.state, action), parent=node, action=action)
            node.children[action] = child
            child.backup()
        return max(root.children, key=lambda a: root.children[a].visits)


def main():
    planner = Planner()
    score = 0
    for move in range(120):
        observation = torch.rand(160, 3, 19, 19, device="cuda")
        action = planner.choose(observation)
        score += action == move % 4
    print("score", score)


if __name__ == "__main__":
    main()
