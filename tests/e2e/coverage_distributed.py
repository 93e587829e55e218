# SPDX-License-Identifier: MIT
"""What PyTorch does on several GPUs: the cases of test_coverage_distributed.py.

Options: `ranks`, the sizes of the worlds that a case is run in, if not both; `eager`, it needs a process group bound to
its device; `mixed`, it needs gloo beside NCCL; `error`, what the program is told where a case is not supported.
"""

from coverage_table import EXACT, UNSUPPORTED, Case

NEEDS_VALUES = "sizes are computed on the device: needs `--simulate-values auto`, the default"


def row(name, what, status=EXACT, note="", **options):
    return Case(name.replace("_", "-"), what, status, f"../distributed/worker.py {name}", note=note, options=options)


CASES = [
    row("ddp", "DistributedDataParallel"),
    row("ddp_find_unused_parameters", "DDP, `find_unused_parameters`"),
    row("ddp_gradient_as_bucket_view", "DDP, `gradient_as_bucket_view`"),
    row("ddp_static_graph", "DDP, `static_graph`"),
    row("ddp_no_sync", "DDP, gradient accumulation with `no_sync`"),
    row("ddp_amp", "DDP, float16 autocast and `GradScaler`"),
    row("ddp_sync_batch_norm", "DDP, `SyncBatchNorm`"),
    row("ddp_fp16_hook", "DDP, communication hook `fp16_compress_hook`"),
    row("ddp_bf16_hook", "DDP, communication hook `bf16_compress_hook`"),
    row("ddp_powersgd_hook", "DDP, communication hook `powerSGD_hook`"),
    row("ddp_zero_redundancy_optimizer", "`ZeroRedundancyOptimizer`"),
    row("fsdp1", "FSDP1, `use_orig_params`, `sync_module_states`"),
    row("fsdp1_flat_parameters", "FSDP1, flat parameters"),
    row("fsdp1_mixed_precision", "FSDP1, `MixedPrecision` in bfloat16"),
    row("fsdp1_cpu_offload", "FSDP1, `CPUOffload`"),
    row("fsdp1_shard_grad_op", "FSDP1, `SHARD_GRAD_OP`"),
    row("fsdp2", "FSDP2 (`fully_shard`), from the meta device"),
    row("fsdp2_mixed_precision", "FSDP2, `MixedPrecisionPolicy`"),
    row("fsdp2_no_reshard", "FSDP2, `reshard_after_forward=False`"),
    row("fsdp2_reshard_to_two", "FSDP2, `reshard_after_forward=2`"),
    row("fsdp2_cpu_offload", "FSDP2, `CPUOffloadPolicy`, gradients clipped over gloo", mixed=True),
    row("fsdp2_activation_checkpointing", "FSDP2 with activation checkpointing"),
    row("hsdp", "hybrid sharding 2 x 2 (FSDP2)", ranks=[4]),
    row("hsdp_fsdp1", "hybrid sharding 2 x 2 (FSDP1)", ranks=[4]),
    row("sharded_checkpoint", "`torch.distributed.checkpoint`, save and load", note=NEEDS_VALUES),
    row("tensor_parallel", "tensor parallelism (`ColwiseParallel`, `RowwiseParallel`)"),
    row("sequence_parallel", "sequence parallelism (`SequenceParallel`)"),
    row("parallel_loss", "`loss_parallel`, logits sharded by vocabulary"),
    row("tensor_and_data_parallel", "tensor parallelism x FSDP2, a 2-D mesh"),
    row("pipeline_gpipe", "pipeline parallelism, `ScheduleGPipe`"),
    row("pipeline_1f1b", "pipeline parallelism, `Schedule1F1B`"),
    row("pipeline_interleaved", "pipeline parallelism, `ScheduleInterleaved1F1B`"),
    row("pipeline_shape_exchange", "pipeline stages that ask each other for shapes", note=NEEDS_VALUES),
    row("all_reduce", "`all_reduce`: every operation and type"),
    row("reduce", "`reduce`"),
    row("broadcast", "`broadcast`"),
    row("all_gather", "`all_gather`, `all_gather_into_tensor`"),
    row("reduce_scatter_tensor", "`reduce_scatter_tensor`"),
    row("all_to_all_single", "`all_to_all_single`, equal and unequal parts"),
    row("gather_scatter", "`gather`, `scatter`"),
    row("send_receive", "`send`, `recv`"),
    row("batch_isend_irecv", "`batch_isend_irecv`"),
    row("coalesced", "coalesced collectives"),
    row("barrier", "`barrier`"),
    row("groups", "`new_group`"),
    row("split_group", "`split_group`", eager=True),
    row("gloo_beside_nccl", "`cpu:gloo,cuda:nccl`", mixed=True),
    row("all_gather_object", "`all_gather_object`", note=NEEDS_VALUES),
    row("broadcast_object_list", "`broadcast_object_list`", note=NEEDS_VALUES),
    row("scatter_object_list", "`scatter_object_list`", note=NEEDS_VALUES),
    row("gather_object", "`gather_object`", note=NEEDS_VALUES),
    row(
        "symmetric_memory",
        "`torch.distributed._symmetric_memory`, NVSHMEM",
        UNSUPPORTED,
        "kernels of one rank would write the memory of others; PyTorch says that there is no GPU fabric",
        error="nvmlDeviceGetGpuFabricInfoV",
    ),
    row(
        "registered_buffers",
        "pools of NCCL's allocator (`backend.mem_allocator`)",
        UNSUPPORTED,
        "simulated devices have no multicast memory; PyTorch says that the allocator is not supported",
        error="NCCL mem allocator is not supported",
    ),
]
