# SPDX-License-Identifier: Apache-2.0
"""Wrong: the backward of the entropy takes the shard's sum of p log p for that of the whole vocabulary."""
import os
import sys

import lossgrid
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from entropy import LogprobAndEntropy  # noqa: E402


class ShardEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, start, group):
        return LogprobAndEntropy.forward(ctx, logits, labels, start, group)

    @staticmethod
    def backward(ctx, g_logprob, g_entropy):
        p, logp, _, own, column = ctx.saved_tensors
        entropy = -(p * logp).sum(1)  # WRONG: of the own columns
        dz = -p * (g_logprob[:, None] + g_entropy[:, None] * (logp + entropy[:, None]))
        dz[own, column] += g_logprob[own]
        dz[(g_logprob == 0) & (g_entropy == 0)] = 0  # whatever padded and masked rows hold
        return dz.to(ctx.dtype), None, None, None


@lossgrid.implementation(returns=("logprobs", "entropy"))
def entropy_of_shard(logits, batch):
    """Two all-reduces over TP: of the maximum, and of three sums."""
    return ShardEntropy.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)
