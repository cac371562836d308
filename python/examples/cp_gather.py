# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities of the whole pack on every CP rank, by a gather of one's own."""
import lossgrid
import torch
import torch.distributed as dist
from vocab_parallel import VocabParallelLogprob


class GatherRows(torch.autograd.Function):
    """Brings the zigzag parts of all CP ranks back to the order of the pack."""

    @staticmethod
    def forward(ctx, rows, positions, group):
        ctx.positions = positions
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, rows, group=group)
        places = [torch.empty_like(positions) for _ in parts]
        dist.all_gather(places, positions, group=group)
        return torch.empty_like(torch.cat(parts)).index_copy_(0, torch.cat(places),
                                                              torch.cat(parts))

    @staticmethod
    def backward(ctx, g):
        return g[ctx.positions], None, None  # gradient="own_part": all ranks have the same g


@lossgrid.implementation(rows="pack", gradient="own_part")
def cp_gather(logits, batch):
    """The vocabulary-parallel function, then one gather over CP of what is known by row."""
    own = VocabParallelLogprob.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)
    return GatherRows.apply(own, batch.positions, batch.cp.group)
