# SPDX-License-Identifier: Apache-2.0
"""torchtitan: its cross entropy, over a split vocabulary too."""
import lossgrid
from adapter_kit import first, nll, one_cp_rank, one_rank
from lossgrid import stubs

lossgrid.packages("torchtitan", "torch")
stubs.install("spmd_types", "tyro", "datasets", "torchdata")
stubs.no_compile()
from torchtitan.components import loss as losses


@lossgrid.implementation(returns="loss", supports=first(one_rank, nll, one_cp_rank))
def titan_cross_entropy(logits, batch):
    """cross_entropy_loss, a sum, over the tokens of the global batch."""
    total = losses.cross_entropy_loss(logits[None], batch.labels_ignore[None])
    return total / batch.denominators.valid_tokens


@lossgrid.implementation(returns="nll", vocab_split="ceil")
def titan_loss_parallel(logits, batch):
    """_LossParallelCrossEntropy by token."""
    return losses._LossParallelCrossEntropy.apply(logits, batch.labels, batch.tp.group,
                                                  batch.vocab_size, "none")
