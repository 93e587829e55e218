# SPDX-License-Identifier: MIT
"""Layers that run in cuDNN or in attention kernels, forward and backward."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from parts import part, print_ledger

cuda = torch.device("cuda")


@part
def recurrent():
    x = torch.randn(20, 8, 32, device=cuda)
    options = [{}, {"bidirectional": True}, {"num_layers": 3, "dropout": 0.2}, {"bias": False}]
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for more in options + ([{"proj_size": 16, "num_layers": 2}] if kind is nn.LSTM else []):
            kind(32, 64, device=cuda, **more)(x)[0].sum().backward()
    packed = nn.utils.rnn.pack_padded_sequence(x, [20, 18, 15, 10, 9, 5, 2, 1])
    nn.LSTM(32, 64, 2, bidirectional=True, device=cuda)(packed)[0].data.sum().backward()
    with torch.no_grad():
        nn.GRU(32, 64, batch_first=True, device=cuda).eval()(x)
    nn.LSTM(32, 64, device=cuda, dtype=torch.bfloat16)(x.bfloat16())[0].sum().backward()
    cell = nn.LSTMCell(32, 64, device=cuda)
    state = cell(x[0])
    cell(x[1], state)[0].sum().backward()


@part
def convolution():
    for benchmark in (False, True):
        torch.backends.cudnn.benchmark = benchmark
        for dimensions, kind, transposed in (
            (1, nn.Conv1d, nn.ConvTranspose1d),
            (2, nn.Conv2d, nn.ConvTranspose2d),
            (3, nn.Conv3d, nn.ConvTranspose3d),
        ):
            x = torch.randn(4, 16, *[12] * dimensions, device=cuda, requires_grad=True)
            kinds = [{}, {"groups": 4}, {"groups": 16}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"bias": False}]
            for more in kinds:
                kind(16, 32, 3, device=cuda, **more)(x).sum().backward()
            transposed(16, 32, 3, stride=2, groups=2, device=cuda)(x).sum().backward()
    torch.backends.cudnn.benchmark = False
    with torch.autocast("cuda", dtype=torch.bfloat16):
        nn.Conv2d(16, 32, 3, padding="same", device=cuda)(torch.randn(4, 16, 32, 32, device=cuda)).sum().backward()


@part
def channels_last():
    net = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3),
        nn.BatchNorm2d(32), nn.ReLU(), nn.Upsample(scale_factor=2, mode="bilinear"), nn.AdaptiveAvgPool2d(4),
    )
    net = net.to(cuda, memory_format=torch.channels_last)
    x = torch.randn(8, 8, 32, 32, device=cuda).to(memory_format=torch.channels_last)
    net(x).sum().backward()
    with torch.autocast("cuda", dtype=torch.float16):
        net(x).sum().backward()
    net.eval()(x)


@part
def attention():
    shape = (2, 4, 256, 64)
    for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):
        for options in ({}, {"is_causal": True, "dropout_p": 0.125}):
            q, k, v = (torch.randn(shape, device=cuda, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv")
            with sdpa_kernel(SDPBackend.__members__[backend]):
                functional.scaled_dot_product_attention(q, k, v, **options).sum().backward()
    q, k, v = (torch.randn(shape, device=cuda) for _ in "qkv")
    functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.zeros(256, 256, device=cuda))
    functional.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    layer = nn.TransformerEncoderLayer(256, 4, batch_first=True, device=cuda)
    nn.TransformerEncoder(layer, 2)(torch.randn(4, 64, 256, device=cuda)).sum().backward()
    nn.MultiheadAttention(256, 4, device=cuda)(*[torch.randn(64, 4, 256, device=cuda)] * 3)[0].sum().backward()
    rows = [torch.randn(length, 4, 64, dtype=torch.bfloat16) for length in (5, 60, 33)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged, device=cuda)
    functional.scaled_dot_product_attention(*[jagged.transpose(1, 2)] * 3)


@part
def other_layers():
    x = torch.randn(6, 16, 24, 24, device=cuda, requires_grad=True)
    norms = [nn.GroupNorm(4, 16), nn.InstanceNorm2d(16, affine=True), nn.LayerNorm([16, 24, 24])]
    for layer in (*norms, nn.PixelShuffle(2), nn.Dropout2d(), nn.LocalResponseNorm(3)):
        layer.to(cuda)(x).sum().backward()
    functional.grid_sample(x, torch.zeros(6, 8, 8, 2, device=cuda), align_corners=False).sum().backward()
    functional.interpolate(x, scale_factor=2, mode="bicubic").sum().backward()
    functional.unfold(x, 3).sum().backward()
    scores = torch.randn(50, 4, 20, device=cuda, requires_grad=True).log_softmax(2)
    lengths = torch.full((4,), 50, dtype=torch.int32)
    functional.ctc_loss(scores, torch.randint(1, 20, (4, 10)).to(cuda), lengths.long(), lengths.long() // 5).backward()
    logits = torch.randn(64, 1000, device=cuda, requires_grad=True)
    functional.cross_entropy(logits, torch.randint(0, 1000, (64,), device=cuda)).backward()
    table = torch.randn(100, 32, device=cuda, requires_grad=True)
    functional.embedding(torch.zeros(8, 8, dtype=torch.int64, device=cuda), table).sum().backward()
    torch.cdist(torch.randn(50, 8, device=cuda), torch.randn(60, 8, device=cuda))
    torch.einsum("bij,bjk->bik", torch.randn(4, 8, 16, device=cuda), torch.randn(4, 16, 8, device=cuda))


print_ledger()
