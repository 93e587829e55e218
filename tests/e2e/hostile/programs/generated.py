# SPDX-License-Identifier: MIT
"""Code objects that come and go at the same addresses: each allocation is made by code of its own name, file and line."""
import asyncio
import functools

import torch


def make(i):
    scope = {}
    blank = "\n" * (i % 50)
    exec(compile(f"def made_{i}():\n{blank}    return t.empty({100 + i}, device='cuda')\n", f"made_{i}.py", "exec"), scope)
    scope["t"] = torch
    return scope[f"made_{i}"]


def generator(first, last):
    for i in range(first, last):
        yield make(i)()


async def coroutine(i):
    await asyncio.sleep(0)
    make(i)()  # not returned: asyncio may print what is


class Dies:
    def __del__(self):
        torch.empty(10, device="cuda")


class Error(Exception):
    def __init__(self):
        self.tensor = torch.empty(11, device="cuda")


def decorate(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)

    return wrapper


for _ in generator(0, 500):
    pass
for i in range(500, 520):
    asyncio.run(coroutine(i))
for _ in range(100):
    Dies()
    try:
        raise Error
    except Error:
        pass
decorated = decorate(lambda: torch.empty(12, device="cuda"))
for _ in range(100):
    decorated()
