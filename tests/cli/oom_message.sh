# SPDX-License-Identifier: MIT
# What oom makes of errors' texts: each wording of PyTorch's, each verdict, launchers' prefixes, wrapped lines,
# figures that cannot be true, what is not PyTorch's, and texts without any.
exec 2>&1
explain()
{
	echo "== $1"
	"$V" oom --message - | sed 's/ *$//'
}
case_of()
{
	echo "== $1"
	"$V" oom --message "$2"
	echo "status $?"
}
advice='If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid'
see='fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html)'

case_of 'too big' 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 23.69 GiB total capacity; 21.45 GiB already allocated; 1.89 GiB free; 21.50 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.'
case_of 'not PyTorch' 'RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity; 6.00 GiB already allocated; 14.88 MiB free; 6.00 GiB reserved in total by PyTorch)'
case_of 'PyTorch 1.0' 'RuntimeError: CUDA out of memory. Tried to allocate 1024.00 KiB (GPU 0; 11.17 GiB total capacity; 10.90 GiB already allocated; 576.00 KiB free; 30.96 MiB cached)'
case_of 'fragmentation' "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacty of 23.65 GiB of which 1.66 GiB is free. Including non-PyTorch memory, this process has 20.81 GiB memory in use. Of the allocated memory 12.09 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch but unallocated. $advice $see"
case_of 'another process' 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 138.00 MiB. GPU 0 has a total capacity of 15.90 GiB of which 8.44 MiB is free. Process 1246069 has 577.00 MiB memory in use. Including non-PyTorch memory, this process has 15.32 GiB memory in use. Of the allocated memory 14.12 GiB is allocated by PyTorch, and 110.41 MiB is reserved by PyTorch but unallocated.'
case_of 'in a container' 'CUDA out of memory. Tried to allocate 448.00 MiB. GPU 1 has a total capacity of 79.10 GiB of which 364.31 MiB is free. Process 175080 has 1.46 GiB memory in use. Process 175356 has 77.26 GiB memory in use. Of the allocated memory 76.12 GiB is allocated by PyTorch, and 0.78 GiB is reserved by PyTorch but unallocated.'
case_of 'another process, and a little cached' 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 12.81 MiB is free. Process 3187 has 13.25 GiB memory in use. Including non-PyTorch memory, this process has 10.35 GiB memory in use. Of the allocated memory 9.42 GiB is allocated by PyTorch, and 428.13 MiB is reserved by PyTorch but unallocated.'
case_of 'without what is free' 'torch.OutOfMemoryError: XPU out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 11.60 GiB. Of the allocated memory 7.80 GiB is allocated by PyTorch, and 120.50 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.'
case_of 'a limit, HIP' 'torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., HIP Graphs), and 54.99 MiB is reserved by PyTorch but unallocated.'
case_of 'cudaMallocAsync' 'torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)
Currently allocated     : 15.16 GiB
Requested               : 512.00 MiB
Device limit            : 15.99 GiB
Free (according to CUDA): 0 bytes
PyTorch limit (set by user-supplied memory fraction)
                        : 17179869184.00 GiB'
case_of 'more than the GPU has' 'CUDA out of memory. Tried to allocate 13535.27 GiB. GPU 0 has a total capacity of 79.14 GiB of which 61.76 GiB is free. Including non-PyTorch memory, this process has 17.37 GiB memory in use. Of the allocated memory 14.34 GiB is allocated by PyTorch, and 2.53 GiB is reserved by PyTorch but unallocated.'
case_of 'negative' 'CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 15.89 GiB of which 33.75 MiB is free. Including non-PyTorch memory, this process has 15.85 GiB memory in use. Of the allocated memory 15.40 GiB is allocated by PyTorch, and 17179869183.98 GiB is reserved by PyTorch but unallocated.'
case_of 'a wrapped request' 'CUDA out of memory. Tried to allocate 17179869176.00 GiB (GPU 0; 7.93 GiB total capacity; 1.00 GiB already allocated; 5.00 GiB free; 2.00 GiB reserved in total by PyTorch)'
case_of 'more than an exbibyte' 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.'
case_of 'enough free' 'CUDA out of memory. Tried to allocate 2.26 GiB (GPU 0; 6.00 GiB total capacity; 781.59 MiB already allocated; 3.03 GiB free; 1.24 GiB reserved in total by PyTorch)'
case_of 'enough free, a little cached' 'RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 3.79 GiB total capacity; 654.97 MiB already allocated; 6.00 MiB free; 666.00 MiB reserved in total by PyTorch)'
case_of 'enough free, little of anything' 'RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; 9.28 GiB free; 4.68 MiB cached)'
case_of 'paged to the host' 'CUDA out of memory. Tried to allocate 2.11 GiB (GPU 0; 8.00 GiB total capacity; 19.84 GiB already allocated; 0 bytes free; 22.26 GiB reserved in total by PyTorch)'
case_of 'more allocated than reserved' 'CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 23.69 GiB total capacity; 30.45 GiB already allocated; 1.89 GiB free; 21.50 GiB reserved in total by PyTorch)'
case_of 'more free than there is' 'CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 23.69 GiB total capacity; 20.45 GiB already allocated; 31.89 GiB free; 21.50 GiB reserved in total by PyTorch)'
case_of 'fragmentation, retyped' 'RuntimeError: CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved in total by Pytorch)'
case_of 'without what is reserved' 'RuntimeError: CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free)'
case_of 'without what is reserved, too big all the same' 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 6.50 GiB already allocated; 1.20 GiB free)'
case_of 'without what is allocated' 'CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 19.75 MiB free; 13.71 GiB reserved in total by PyTorch)'
case_of 'without the capacity' 'CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 21.45 GiB already allocated; 1.89 GiB free; 21.50 GiB reserved in total by PyTorch)'
case_of 'without two figures' 'CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 21.50 GiB already allocated)'
case_of 'cut' 'RuntimeError: CUDA out of memory. Tried to allocate 292.50 MiB'
case_of 'negative, all of a process' 'CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.10 GiB is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.'
case_of 'negative, of another process' 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.01 GiB is free. Process 24309 has 17179869184.00 GiB memory in use. Including non-PyTorch memory, this process has 71.10 GiB memory in use. Of the allocated memory 70.11 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated.'
case_of 'three reasons: a page of 24 lines' 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.89 GiB is free. Process 4242 has 6.50 GiB memory in use. Process 777 has 3.00 GiB memory in use. Including non-PyTorch memory, this process has 12.30 GiB memory in use. 13.00 GiB allowed; Of the allocated memory 8.00 GiB is allocated by PyTorch, with 512.00 MiB allocated in private pools (e.g., CUDA Graphs), and 3.70 GiB is reserved by PyTorch but unallocated.'
case_of 'the driver, 1.4' 'THCudaCheck FAIL file=/pytorch/aten/src/THC/THCGeneral.cpp line=405 error=2 : out of memory'
case_of 'another check' 'THCudaCheck FAIL file=/pytorch/aten/src/THC/THCGeneral.cpp line=405 error=11 : invalid argument'
case_of 'the driver' 'RuntimeError: CUDA error: out of memory'
case_of 'the host' "RuntimeError: [enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 1099511627776 bytes. Error code 12 (Cannot allocate memory)"
case_of 'MPS' 'RuntimeError: MPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 GiB, max allowed: 27.20 GiB). Tried to allocate 292.50 MiB on private pool.'
case_of 'JAX' 'jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes.'

explain 'ranks, repeated by the launcher, wrapped' <<'END'
Traceback (most recent call last):
  File "train.py", line 10, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.99 GiB. GPU 3 has a total capacity of 23.56 GiB of which 1.23 GiB is free. Including non-PyTorch memory, this process has 22.27 GiB memory in use. Of the allocated memory 21.73 GiB is allocated by PyTorch, and 0.19 GiB is reserved by PyTorch but unallocated.
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.99 GiB. GPU 3 has a total capacity of 23.56 GiB of which 1.23 GiB is free. Including non-PyTorch memory, this process has 22.27 GiB memory in use. Of the allocated memory 21.73 GiB is allocated by PyTorch, and 0.19 GiB is reserved by PyTorch but unallocated.
2026-01-02T03:04:05.678Z [default1]:torch.OutOfMemoryError: CUDA out of mem
2026-01-02T03:04:05.678Z [default1]:ory. Tried to allocate 2.0
2026-01-02T03:04:05.678Z [default1]:0 GiB. GPU 1 has a total capacity of 23.56 GiB of which 1.23 GiB is free. Including non-PyT
2026-01-02T03:04:05.678Z [default1]:orch memory, this process has 22.27 GiB memory in use. Of the allocated memory 19.73 GiB is allocated by PyTorch, and 2.19 GiB is reserved by PyTorch but unallocated.
END
echo '== JSON'
"$V" oom --json --message 'CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 23.69 GiB total capacity; 21.45 GiB already allocated; 1.89 GiB free; 21.50 GiB reserved in total by PyTorch)'
echo '== JSON, without what is reserved'
"$V" oom --json --message 'CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free)'
case_of 'empty' ''
case_of 'nothing' 'Segmentation fault'
case_of 'source code' 'TORCH_CHECK(false, "CUDA out of memory. Tried to allocate ", format_size(n))'
"$V" oom --json --message 'Segmentation fault'
echo hello >log
case_of 'a file' log
head -c 100000 /dev/zero | explain 'zeros'
echo '== usage'
"$V" oom; echo "status $?"
"$V" oom train.vtr; echo "status $?"
