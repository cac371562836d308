# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own cross entropy of a linear layer, which never has all logits at once.

In bfloat16 its loss is added up over the chunks in bfloat16: 2.8 % off with 32 chunks (H = 256,
V = 8192), which fails the check of the loss. Its gradients are right."""
import lossgrid
import torch
from mean_over_targets import IGNORED, unsupported

functional = torch.nn.functional


def supports(problem):
    if not hasattr(functional, "linear_cross_entropy"):
        return f"PyTorch {torch.__version__} has no torch.nn.functional.linear_cross_entropy"
    return unsupported(problem)


def chunks(problem):
    """Returns the default, "aspect_ratio": logits of a chunk are not larger than hidden states."""
    rows = -(-problem.padded_tokens // -(-problem.vocab // problem.hidden))
    return -(-problem.padded_tokens // (1 << (rows - 1).bit_length()))


@lossgrid.implementation(inputs="hidden", returns="loss", supports=supports,
                         rounds=("loss", "logits", "grad_weight"), chunks=chunks)
def torch_linear_cross_entropy(hidden, weight, batch):
    """F.linear_cross_entropy, in chunks of rows, which makes gradients in the forward pass."""
    return functional.linear_cross_entropy(
        hidden, weight, batch.labels_ignore, ignore_index=IGNORED,
        options=torch.nn.LinearCrossEntropyOptions())
