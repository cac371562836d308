# SPDX-License-Identifier: Apache-2.0
"""Liger's cross entropies."""
import lossgrid
import torch
from mean_over_targets import IGNORED, unsupported


def supports(problem):
    return unsupported(problem, library="liger_kernel", needs_gpu=True)


def functional():
    from liger_kernel.transformers import functional as found  # looks for a GPU
    return found


@lossgrid.implementation(returns="loss", overwrites="logits", supports=supports, rounds="loss")
def liger(logits, batch):
    """Liger's cross entropy, whose gradient takes the place of the logits; of bf16 logits
    the loss is bf16."""
    return functional().liger_cross_entropy(logits, batch.labels_ignore, ignore_index=IGNORED)


@lossgrid.implementation(inputs="hidden", returns="loss", supports=supports,
                         rounds=("logits", "grad_logits", "grad_weight"))
def liger_linear(hidden, weight, batch):
    """Liger's fused linear cross entropy with float32 sums."""
    return functional().liger_fused_linear_cross_entropy(
        hidden, weight, batch.labels_ignore, ignore_index=IGNORED, accum_dtype=torch.float32)
