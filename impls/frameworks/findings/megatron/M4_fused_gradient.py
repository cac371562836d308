# SPDX-License-Identifier: Apache-2.0
"""Megatron-core under lossgrid: cross entropy, fused (its gradient is bf16 always) and not."""
import lossgrid
import support
import torch

lossgrid.packages("megatron-core")
import megatron.core.fusions.fused_cross_entropy as fusions
from megatron.core.tensor_parallel import vocab_parallel_cross_entropy

KIND = dict(returns="nll", autograd="nonleaf", vocab_split="padded:-1e30", overwrites=("logits",),
            megatron=True)


@lossgrid.implementation(**KIND)
def mcore(logits, batch):
    return vocab_parallel_cross_entropy(logits[:, None], batch.labels[:, None])[:, 0]


@lossgrid.implementation(**KIND)
def mcore_fused(logits, batch):
    return fusions.fused_vocab_parallel_cross_entropy(
        logits[:, None], batch.labels[:, None], batch.tp.group)[:, 0]


@lossgrid.implementation(**{**KIND, "overwrites": ()})
def mcore_kept(logits, batch):
    """Declares that logits stay as they are."""
    return vocab_parallel_cross_entropy(logits[:, None], batch.labels[:, None])[:, 0]
