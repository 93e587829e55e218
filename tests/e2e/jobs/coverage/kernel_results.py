# SPDX-License-Identifier: MIT
"""Operators that check on the host what their own kernels computed: on the simulated GPU they raise an error."""

import torch

from ledger import print_ledger

BEYOND = {
    "matrix_exp": lambda: torch.linalg.matrix_exp(torch.randn(3, 8, 8, device="cuda")),
    "mode": lambda: torch.randn(4, 5000, device="cuda").mode(dim=1),
}

errors = []
for operator in BEYOND.values():
    try:
        operator()
    except RuntimeError as error:
        errors.append(str(error))
    except ValueError as error:
        errors.append(str(error))

print_ledger(errors=errors, operators=len(BEYOND))
