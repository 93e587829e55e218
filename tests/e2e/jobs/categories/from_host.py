# SPDX-License-Identifier: MIT
"""Training on batches from the host, which are kept; a table of their sizes that the device computes, and detached results, are no data.

Prints the address of each tensor that was filled from the host, of a table and of results. Memory runs out in the end.
"""

import json

import torch

MIB = 1 << 20


def main():
    model = torch.nn.Linear(1024, 1024).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches, results = [], []
    table = torch.arange(2048 * 1024, device="cuda", dtype=torch.float32).view(2048, 1024)
    mask = torch.ones(2048, 1024).to("cuda", non_blocking=True)
    for _ in range(6):
        batch = torch.rand(2048, 1024).to("cuda")
        result = model(batch * mask)
        (result * table).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        batches.append(batch)
        results.append(result.detach())
    print(
        json.dumps(
            {
                "host": [tensor.data_ptr() for tensor in (*batches, mask)],
                "parameters": [tensor.data_ptr() for tensor in model.parameters()],
                "computed": [tensor.data_ptr() for tensor in (table, *results)],
            }
        )
    )
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass


if __name__ == "__main__":
    main()
