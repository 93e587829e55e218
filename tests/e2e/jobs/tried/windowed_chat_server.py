# SPDX-License-Identifier: MIT
"""A chat server that keeps the keys and values of recent sessions and the last tokens of each."""

import random
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

WINDOW = 768
MAX_SESSIONS = 12


class Block(nn.Module):
    def __init__(self, dim=1024, heads=16):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, past):
        b, t, d = x.shape
        q, k, v = self.qkv(F.layer_norm(x, (d,))).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(F.layer_norm(x, (d,))), (k[:, :, -WINDOW:].clone(), v[:, :, -WINDOW:].clone())


class ChatServer:
    def __init__(self, depth=6, vocab=16000, dim=1024):
        self.embed = nn.Embedding(vocab, dim, device="cuda", dtype=torch.half)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth)).to("cuda", torch.half)
        self.sessions = OrderedDict()

    @torch.inference_mode()
    def forward(self, ids, past):
        x = self.embed(ids)
        present = []
        for block, layer_past in zip(self.blocks, past, strict=True):
            x, kv = block(x, layer_past)
            present.append(kv)
        return (x[:, -1:] @ self.embed.weight.t()).argmax(dim=-1), present

    def reply(self, session, prompt, new_tokens=6):
        past = self.sessions.pop(session, [None] * len(self.blocks))
        token, past = self.forward(prompt, past)
        answer = [token]
        for _ in range(new_tokens - 1):
            token, past = self.forward(token, past)
            answer.append(token)
        self.sessions[session] = past
        while len(self.sessions) > MAX_SESSIONS:
            self.sessions.popitem(last=False)
        return torch.cat(answer, dim=1).cpu()


def main():
    rng = random.Random(13)
    server = ChatServer()
    for request in range(150):
        user = f"user-{int(rng.expovariate(0.2)) % 30}"
        prompt = torch.randint(0, 16000, (4, 160 + 16 * (request % 6)), device="cuda")
        server.reply(user, prompt)
    print(f"{len(server.sessions)} sessions alive")


if __name__ == "__main__":
    main()
