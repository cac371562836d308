# SPDX-License-Identifier: Apache-2.0
"""Wrong: the entropy is right, and nothing goes back through it."""
import os
import sys

import lossgrid
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from entropy import LogprobAndEntropy  # noqa: E402


class EntropyWithoutGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, start, group):
        return LogprobAndEntropy.forward(ctx, logits, labels, start, group)

    @staticmethod
    def backward(ctx, g_logprob, g_entropy):
        # WRONG: g_entropy is not used, as if the entropy were logged alone.
        return LogprobAndEntropy.backward(ctx, g_logprob, torch.zeros_like(g_entropy))


@lossgrid.implementation(returns=("logprobs", "entropy"))
def entropy_gradient_left_out(logits, batch):
    """Two all-reduces over TP: of the maximum, and of three sums."""
    return EntropyWithoutGradient.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)
