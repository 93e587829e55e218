# SPDX-License-Identifier: MIT
"""What PyTorch does on one GPU: the cases of test_coverage_core.py.

Several rows may share one job: jobs in parts print a ledger after each part, named as the case is.
"""

from coverage_table import EXACT, MODELLED, UNSUPPORTED, Case

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}

OPERATORS = [
    Case("linear-algebra", "`torch.linalg`: LU, QR, SVD, eigenvalues, least squares ...", MODELLED, "operators.py",
         "workspaces of cuSOLVER"),
    Case("fft", "`torch.fft`, `stft`", MODELLED, "operators.py", "work areas of cuFFT"),
    Case("sparse", "sparse COO and CSR tensors, sparse gradients", MODELLED, "operators.py",
         "workspaces of cuSPARSE; numbers of nonzeros that kernels count read 0"),
    Case("sorting", "`sort`, `topk`, `kthvalue`, `mode`, scans, `searchsorted`", EXACT, "operators.py"),
    Case("counting", "`nonzero`, `unique`, masks, `bincount`, `histc`, `multinomial`, `randperm`", MODELLED,
         "operators.py", "sizes that depend on values, see [Values](simulation.md#values)"),
    Case("runtime-compiled", "operators compiled by NVRTC: `prod`, `gcd`, `special.zeta`, jiterator", EXACT,
         "operators.py"),
    Case("other-architecture", "a GPU of an architecture that PyTorch was not compiled for (8.9)", EXACT,
         "architectures.py", options={"gpu": "l4"}),
    Case("low-precision", "fp8 `_scaled_mm`, `_int_mm`", EXACT, "operators.py"),
]

NETWORKS = [
    Case("recurrent", "LSTM, GRU, RNN: bidirectional, dropout, projections, packed sequences", MODELLED, "networks.py",
         "cuDNN's workspace, reserve space and dropout states"),
    Case("convolution", "1-3D convolution: grouped, transposed, dilated, `cudnn.benchmark`", MODELLED, "networks.py",
         "cuDNN's workspaces"),
    Case("channels-last", "`channels_last` networks, batch normalisation, pooling, resampling", MODELLED,
         "networks.py", "cuDNN's workspaces"),
    Case("attention", "scaled dot product attention: flash, efficient, cuDNN, math; masks, GQA, nested tensors",
         MODELLED, "networks.py", "the workspace of cuDNN's attention"),
    Case("other-layers", "other normalisations, `grid_sample`, `interpolate`, CTC and cross entropy, `einsum`", EXACT,
         "networks.py"),
]

TRAINING = [
    Case("mixed-precision", "autocast with `GradScaler`, fp16 and bf16", EXACT, "training.py"),
    Case("optimizers", "the optimizers of `torch.optim`, fused, multi-tensor, with closures", EXACT, "training.py"),
    Case("activation-checkpointing", "activation checkpointing, reentrant and not", EXACT, "training.py"),
    Case("activations-on-the-host", "`save_on_cpu` with pinned memory, `saved_tensors_hooks`", EXACT, "training.py"),
    Case("optimizer-on-the-host", "optimizer states in pinned host memory", EXACT, "training.py"),
    Case("streams", "several streams, events, `record_stream`, external streams", EXACT, "training.py"),
    Case("event-timing", "times from CUDA events", MODELLED, "training.py", "a launch takes 1 ms"),
    Case("functional-transforms", "`torch.func`: `vmap`, `grad`, `jacrev`, `jvp`", EXACT, "training.py"),
]

GRAPHS = [
    Case("capture-and-replay", "CUDA graphs of a whole training step", EXACT, "cuda_graphs.py"),
    Case("graphed-callables", "`make_graphed_callables`", EXACT, "cuda_graphs.py"),
    Case("shared-pool", "graphs that share a memory pool", EXACT, "cuda_graphs.py"),
    Case("what-a-capture-forbids", "a capture that synchronises fails as on a GPU", EXACT, "cuda_graphs.py"),
]

COMPILED = [
    Case("compile-cold", "`torch.compile` with Triton, nothing cached", EXACT, "compiled.py CACHE",
         "the tuner's own buffers are part of the peak, as on a GPU"),
    Case("compile-warm", "the same with its caches filled", EXACT, "compiled.py CACHE"),
    Case("compile-reduce-overhead", '`mode="reduce-overhead"`: CUDA graph trees', EXACT,
         "compiled.py CACHE reduce-overhead"),
    Case("compile-gpt", "a compiled GPT with autocast and AdamW", EXACT, "compiled_gpt.py CACHE", slow=True),
]

ALLOCATOR = [
    Case("memory-of-the-device", "`mem_get_info`, device properties, `empty_cache`", EXACT, "allocator.py"),
    Case("memory-fraction", "`set_per_process_memory_fraction`", EXACT, "allocator.py"),
    Case("out-of-memory", "out of memory, and retries that give cached memory back", EXACT, "allocator.py"),
    Case("statistics", "`memory_stats`, `memory_summary`, raw allocations", EXACT, "allocator.py"),
    Case("reset-peaks", "`reset_peak_memory_stats`: the recording keeps the peak of the whole run", EXACT, "peaks.py"),
    Case("private-pools", "`MemPool`, `use_mem_pool`", EXACT, "allocator.py"),
    Case("settings-while-it-runs", "allocator settings changed while the program runs", EXACT, "allocator.py"),
    Case("expandable-segments", "`expandable_segments:True`, with out of memory and `empty_cache`", EXACT,
         "segments.py", options={"env": EXPANDABLE}),
    Case("malloc-async", "`backend:cudaMallocAsync`, with out of memory", MODELLED, "segments.py",
         "what the driver's pool reserves beyond what is used", options={"env": ASYNC}),
]

TOOLS = [
    Case("own-recorder", "`_record_memory_history`, `_dump_snapshot`; `torch.profiler` with CUDA activity", EXACT,
         "snapshot.py FOLDER", "profiles hold no GPU events"),
    Case("nvml", "NVML through `torch.cuda` and pynvml", MODELLED, "monitor.py",
         "an idle board: utilisation, temperature, power and clocks", options={"needs": ["pynvml"]}),
    Case("data-loaders", "`DataLoader` with workers by fork and spawn, pinned memory", EXACT, "loaders.py"),
]

BEYOND = [
    Case("kernel-results", "operators that assert what their own kernels computed: `linalg.matrix_exp` of a batch, "
         "`mode` of more than 2048 elements", UNSUPPORTED, "kernel_results.py",
         "PyTorch raises its error: the results read 0, see [Values](simulation.md#values)"),
]

CASES = [*OPERATORS, *NETWORKS, *TRAINING, *GRAPHS, *COMPILED, *ALLOCATOR, *TOOLS, *BEYOND]
