# SPDX-License-Identifier: MIT
"""What PyTorch's distributed package needs when only some ranks of a job run (`vramtrace run --ranks`).

The ranks that SIMGPU_RANKS names are *present*, all others *absent*. The *stand-in* of a group is its lowest present
rank: absent ranks are assumed alike it. Device tensors are simgpu's matter (simgpu/nccl_absent.h); here is what that
cannot know or reach. The modules may import torch, which is only being imported itself when they are.
"""

from . import cpu, groups, job, messages, store


def adapt(module):
    """Called once, when distributed_c10d has been executed and nobody has imported names from it yet."""
    if not hasattr(module, "_new_process_group_helper"):
        return  # this PyTorch was built without it
    job.c10d = module
    store.serve()
    groups.adapt()
    cpu.adapt()
    messages.adapt()
