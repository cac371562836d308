# SPDX-License-Identifier: Apache-2.0
"""Liger: Triton kernels of cross entropies, in Triton's interpreter where there is no GPU."""
import os

import lossgrid
import torch
from adapter_kit import by_id, first, nll, one_cp_rank, one_rank
from lossgrid import stubs

lossgrid.packages("liger-kernel", "triton", "torch")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
stubs.no_compile()
from liger_kernel.transformers import functional
from liger_kernel.transformers.vocab_parallel_cross_entropy import LigerVocabParallelCrossEntropy


def interpreted(problem):
    if problem.dtype == "bfloat16" and "TRITON_INTERPRET" in os.environ:
        return "bfloat16 in Triton's interpreter is not judged"
    return ""


own_tokens = first(interpreted, one_rank, nll, one_cp_rank)


@lossgrid.implementation(returns="loss", supports=own_tokens, autograd="nonleaf",
                         overwrites="logits")
def liger_cross_entropy(logits, batch):
    """liger_cross_entropy, summed; its forward leaves the gradient in the memory of the logits."""
    total = functional.liger_cross_entropy(logits, batch.labels_ignore, reduction="sum")
    return total / batch.denominators.valid_tokens


@lossgrid.implementation(returns="nll", vocab_split="padded:-1e30", autograd="nonleaf",
                         overwrites="logits", supports=interpreted)
def liger_vocab_parallel(logits, batch):
    """LigerVocabParallelCrossEntropy by token."""
    return LigerVocabParallelCrossEntropy()(logits[:, None], batch.labels[:, None],
                                            batch.tp.group)[:, 0]


@lossgrid.implementation(inputs="hidden", returns="loss", supports=own_tokens,
                         rounds=("logits", "grad_logits", "grad_weight"))
def liger_linear(hidden, weight, batch):
    """liger_fused_linear_cross_entropy, summed."""
    total = functional.liger_fused_linear_cross_entropy(
        hidden / batch.temperature, by_id(weight, batch), batch.labels_ignore, reduction="sum")
    return total / batch.denominators.valid_tokens
