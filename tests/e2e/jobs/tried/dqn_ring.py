# SPDX-License-Identifier: MIT
"""Double DQN on a toy grid with a replay memory on the GPU and a target network."""

import copy
import random

import torch
from torch import nn


class Replay:
    """The newest transitions, oldest overwritten first."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.slots = []
        self.cursor = 0

    def push(self, *transition):
        if len(self.slots) < self.capacity:
            self.slots.append(transition)
        else:
            self.slots[self.cursor] = transition
        self.cursor = (self.cursor + 1) % self.capacity

    def sample(self, k, rng):
        picked = [self.slots[rng.randrange(len(self.slots))] for _ in range(k)]
        return [torch.cat(column) for column in zip(*picked, strict=True)]


def q_network(planes, actions):
    return nn.Sequential(
        nn.Conv2d(planes, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 16 * 16, 128),
        nn.ReLU(),
        nn.Linear(128, actions),
    )


def learn(online, target, opt, replay, rng, gamma=0.97):
    obs, action, reward, following = replay.sample(2, rng)
    with torch.no_grad():
        best = online(following).argmax(dim=1, keepdim=True)
        goal = reward + gamma * target(following).gather(1, best).squeeze(1)
    q = online(obs).gather(1, action.unsqueeze(1)).squeeze(1)
    loss = nn.functional.smooth_l1_loss(q, goal)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()


def main(envs=192, planes=3, actions=5, steps=120):
    rng = random.Random(1)
    online = q_network(planes, actions).cuda()
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.RMSprop(online.parameters(), lr=1e-4)
    replay = Replay(capacity=60)

    obs = torch.rand(envs, planes, 32, 32, device="cuda")
    for step in range(steps):
        if rng.random() < max(0.05, 1 - step / 60):
            action = torch.randint(0, actions, (envs,), device="cuda")
        else:
            with torch.no_grad():
                action = online(obs).argmax(dim=1)
        following = torch.rand_like(obs)
        reward = torch.rand(envs, device="cuda")
        replay.push(obs, action, reward, following)
        obs = following
        if step >= 8:
            learn(online, target, opt, replay, rng)
        if step % 25 == 0:
            target.load_state_dict(online.state_dict())
    print(f"{len(replay.slots)} transitions in the replay memory")


if __name__ == "__main__":
    main()
