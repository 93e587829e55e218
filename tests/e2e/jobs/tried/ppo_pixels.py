# SPDX-License-Identifier: MIT
"""PPO on a vectorised pixel environment whose frames live on the GPU."""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Transition:
    obs: torch.Tensor
    action: torch.Tensor
    logp: torch.Tensor
    reward: torch.Tensor


class VecPixelEnv:
    """Many copies of a toy game, stacked frames of 84x84 pixels."""

    def __init__(self, n_envs: int, stack: int = 4):
        self.n_envs = n_envs
        self.frames = torch.zeros(n_envs, stack, 84, 84, device="cuda")

    def step(self, action: torch.Tensor):
        newest = torch.rand(self.n_envs, 1, 84, 84, device="cuda") + 0.01 * action.view(-1, 1, 1, 1)
        self.frames = torch.cat([self.frames[:, 1:], newest], dim=1)
        reward = torch.rand(self.n_envs, device="cuda")
        return self.frames, reward


class RolloutBuffer:
    steps = []

    def __init__(self, horizon: int, gamma: float = 0.99):
        self.horizon = horizon
        self.gamma = gamma

    def add(self, transition: Transition):
        self.steps.append(transition)

    def returns(self):
        out, running = [], 0.0
        for t in reversed(self.steps[-self.horizon :]):
            running = t.reward + self.gamma * running
            out.append(running)
        return out[::-1]

    def __iter__(self):
        return zip(self.steps[-self.horizon :], self.returns(), strict=True)


class ActorCritic(nn.Module):
    def __init__(self, n_actions: int = 6):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 9 * 9, 256),
            nn.ReLU(),
        )
        self.pi = nn.Linear(256, n_actions)
        self.v = nn.Linear(256, 1)

    def forward(self, obs):
        h = self.body(obs)
        return F.log_softmax(self.pi(h), dim=-1), self.v(h).squeeze(-1)


def main():
    env = VecPixelEnv(n_envs=88)
    net = ActorCritic().to("cuda")
    opt = torch.optim.Adam(net.parameters(), lr=2.5e-4)
    obs = env.frames
    for _ in range(60):
        buffer = RolloutBuffer(horizon=16)
        with torch.no_grad():
            for _ in range(buffer.horizon):
                logits, _ = net(obs)
                action = (logits + torch.rand_like(logits)).argmax(dim=-1)
                logp = logits.gather(1, action.unsqueeze(1)).squeeze(1)
                next_obs, reward = env.step(action.float())
                buffer.add(Transition(obs, action, logp, reward))
                obs = next_obs
        for t, ret in buffer:
            logits, value = net(t.obs)
            ratio = (logits.gather(1, t.action.unsqueeze(1)).squeeze(1) - t.logp).exp()
            adv = ret - value.detach()
            policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            loss = policy + 0.5 * F.mse_loss(value, ret)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    main()
