# SPDX-License-Identifier: MIT
"""Operators whose workspaces, outputs or kernels come from elsewhere than PyTorch's own element-wise code."""

import torch

from parts import part, print_ledger

cuda = torch.device("cuda")


@part
def linear_algebra():
    a = torch.randn(6, 96, 96, device=cuda)
    spd = a @ a.mT + torch.eye(96, device=cuda)
    b = torch.randn(6, 96, 8, device=cuda)
    torch.linalg.lu_factor(a)
    torch.linalg.solve(a, b)
    torch.linalg.inv(a)
    torch.linalg.det(a[0])
    torch.linalg.slogdet(a)
    torch.linalg.qr(a)
    torch.linalg.svd(a)
    torch.linalg.svdvals(a[0])
    torch.linalg.eigh(spd)
    torch.linalg.eigvalsh(spd[0])
    torch.linalg.lstsq(a, b)
    torch.linalg.pinv(a)
    torch.linalg.matrix_norm(a, 2)
    torch.linalg.matrix_exp(a[0])
    torch.linalg.solve_triangular(a, b, upper=True)
    torch.linalg.cholesky_ex(spd)
    torch.linalg.ldl_factor_ex(spd)
    torch.cholesky_solve(b, spd)
    torch.ormqr(a, torch.randn(6, 96, device=cuda), b)
    torch.lu_unpack(*torch.linalg.lu_factor(a))
    torch.linalg.eigvals(a[0])


@part
def fft():
    x = torch.randn(8, 64, 64, device=cuda, requires_grad=True)
    torch.fft.ifft2(torch.fft.fft2(x)).real.sum().backward()
    torch.fft.irfft(torch.fft.rfft(x.detach(), n=100))
    torch.fft.fftn(x.detach().double())
    torch.fft.hfft(torch.fft.fft(x.detach()))
    torch.fft.fftshift(torch.fft.fft(x.detach().half()))
    window = torch.hann_window(64, device=cuda)
    wave = torch.randn(4, 4000, device=cuda)
    spectrum = torch.stft(wave, 64, window=window, return_complex=True)
    torch.fft.ifft(spectrum)


@part
def sparse():
    places = torch.randint(0, 64, (2, 400))
    coo = torch.sparse_coo_tensor(places, torch.randn(400), (64, 64)).to(cuda)
    dense = torch.randn(64, 32, device=cuda, requires_grad=True)
    torch.sparse.mm(coo, dense).sum().backward()
    (coo + coo).coalesce().to_dense()
    crow = torch.arange(0, 401, 400 // 64 + 1, device=cuda)[:65].clamp(max=400)
    crow = torch.cat([crow, crow.new_full((65 - len(crow),), 400)])
    columns, values = torch.randint(0, 64, (400,), device=cuda), torch.randn(400, device=cuda)
    csr = torch.sparse_csr_tensor(crow, columns, values, (64, 64), check_invariants=False)
    csr @ dense.detach()
    torch.sparse.sampled_addmm(csr, torch.randn(64, 8, device=cuda), torch.randn(8, 64, device=cuda))
    torch.sparse.softmax(coo.coalesce(), dim=1)
    torch.randn(64, 64, device=cuda).relu().to_sparse()
    embedding = torch.nn.EmbeddingBag(1000, 64, sparse=True, device=cuda)
    embedding(torch.randint(0, 1000, (16, 8)).to(cuda)).sum().backward()
    torch.optim.SparseAdam(embedding.parameters()).step()


@part
def sorting():
    x = torch.randn(64, 5000, device=cuda)
    x.sort()
    x.sort(dim=0, stable=True)
    torch.sort(torch.randn(300000, device=cuda))
    x.argsort(descending=True)
    x.topk(50)
    x.kthvalue(7)
    x.median(dim=1)
    x[:, :1000].mode(dim=1)
    x.cumsum(1)
    x.cummax(0)
    x.logcumsumexp(1)
    torch.searchsorted(x.sort()[0], x[:, :16].contiguous())
    torch.bucketize(x, torch.arange(10, device=cuda))


@part
def counting():
    x = torch.randint(0, 100, (20000,)).to(cuda)
    mask = x > 50
    x.nonzero()
    x[mask]
    torch.masked_select(x, mask)
    torch.where(mask)
    x.unique(return_inverse=True, return_counts=True)
    torch.unique_consecutive(x)
    torch.unique(x.view(200, 100), dim=0)
    torch.bincount(x)
    torch.histc(x.float(), bins=20, min=0, max=100)
    torch.histogram(x.float().cpu(), bins=20)
    torch.multinomial(torch.rand(32, 1000, device=cuda), 5)
    torch.multinomial(torch.rand(32, 1000, device=cuda), 500, replacement=True)
    torch.randperm(100000, device=cuda)
    torch.nn.functional.one_hot(x, 100)
    torch.zeros(100, device=cuda).index_add_(0, x, x.float())
    torch.zeros(100, device=cuda).scatter_reduce_(0, x, x.float(), "amax")
    torch.repeat_interleave(x, 2)
    torch.tril_indices(50, 50, device=cuda)
    x.float().quantile(0.5)


@part
def runtime_compiled():
    """Operators that PyTorch compiles by NVRTC when they are first used."""
    x = torch.ones(1000, device=cuda)
    torch.prod(x)
    torch.prod(x.to(torch.complex64))
    torch.gcd(x.int(), x.int())
    torch.lcm(x.int(), x.int())
    torch.special.zeta(x, x)
    torch.special.airy_ai(x)
    torch.special.bessel_j0(x)
    torch.cuda.jiterator._create_jit_fn("template <typename T> T fused(T x, T y) { return x * y + x; }")(x, x)


@part
def low_precision():
    a = torch.randn(128, 256, device=cuda).to(torch.float8_e4m3fn)
    b = torch.randn(64, 256, device=cuda).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=cuda)
    torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    bias = torch.randn(64, device=cuda, dtype=torch.bfloat16)
    torch._scaled_mm(a, b, scale_a=one, scale_b=one, bias=bias, out_dtype=torch.bfloat16)
    rows, columns = torch.ones(128, 1, device=cuda), torch.ones(1, 64, device=cuda)
    torch._scaled_mm(a, b, scale_a=rows, scale_b=columns, out_dtype=torch.bfloat16)
    small = torch.ones(64, 128, dtype=torch.int8, device=cuda)
    torch._int_mm(small, small.t())
    torch.randn(64, 64, device=cuda).to(torch.float8_e5m2).to(torch.float16)


print_ledger()
