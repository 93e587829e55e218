# SPDX-License-Identifier: MIT
"""Jensen-Shannon divergence of 4 x 2048 fp32 distributions, forward and backward; the size is the vocabulary."""

import torch

from peaks import print_peaks

TOKENS = 4 * 2048


class JensenShannon(torch.nn.Module):
    """The divergence between two batches of log-probabilities, half from each side of their mean."""

    def __init__(self, beta=0.5):
        super().__init__()
        self.divergence = torch.nn.KLDivLoss(reduction="batchmean", log_target=True)
        self.beta = beta

    def forward(self, log_q, log_p):
        mean = torch.lerp(torch.exp(log_p), torch.exp(log_q), self.beta)
        # The mean's logarithm is taken for each side: the figure includes both copies.
        from_p = self.divergence(torch.log(mean), log_p)
        from_q = self.divergence(torch.log(mean), log_q)
        return self.beta * from_p + (1 - self.beta) * from_q


def prepare(vocabulary):
    divergence = JensenShannon()
    logs = torch.randn(TOKENS, vocabulary, device="cuda", requires_grad=True).log_softmax(dim=-1)
    target = torch.randn(TOKENS, vocabulary, device="cuda").log_softmax(dim=-1)

    def step():
        loss = divergence(logs, target)
        loss.backward(retain_graph=True)

    return step


print_peaks(prepare)
