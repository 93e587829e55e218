# SPDX-License-Identifier: MIT
"""A tensor of 64 MiB that another process opens, writes to, and closes again."""

import torch
import torch.multiprocessing as mp

BYTES = 64 << 20


def write(tensor, done):
    tensor.fill_(7)
    torch.cuda.synchronize()
    del tensor
    torch.cuda.ipc_collect()
    done.put("written")


if __name__ == "__main__":
    mp.set_start_method("spawn")
    shared, done = torch.zeros(BYTES, dtype=torch.uint8, device="cuda"), mp.Queue()
    child = mp.Process(target=write, args=(shared, done))
    child.start()
    print(done.get())
    child.join()
    print("child ended with", child.exitcode)
