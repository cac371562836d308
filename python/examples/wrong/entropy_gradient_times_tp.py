# SPDX-License-Identifier: Apache-2.0
"""Wrong: the gradient of the entropy is added up over TP ranks that all have the whole of it."""
import os
import sys

import lossgrid
import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from entropy import LogprobAndEntropy  # noqa: E402


class Summed(torch.autograd.Function):
    """The identity, with a sum over TP in its backward."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g, group=ctx.group)  # WRONG: all ranks have the same gradient already
        return g, None


@lossgrid.implementation(returns=("logprobs", "entropy"))
def entropy_gradient_times_tp(logits, batch):
    """Two all-reduces over TP: of the maximum, and of three sums."""
    group = batch.tp.group
    logprobs, entropy = LogprobAndEntropy.apply(logits, batch.labels, batch.vocab_start, group)
    return logprobs, Summed.apply(entropy, group)
