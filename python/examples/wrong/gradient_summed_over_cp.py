# SPDX-License-Identifier: Apache-2.0
"""Wrong: the backward of the gather adds up what all CP ranks have."""
import os
import sys

import lossgrid
import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from vocab_parallel import VocabParallelLogprob  # noqa: E402


class GatherRows(torch.autograd.Function):
    """Brings the zigzag parts of all CP ranks back to the order of the pack."""

    @staticmethod
    def forward(ctx, rows, positions, group):
        ctx.positions, ctx.group = positions, group
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, rows, group=group)
        places = [torch.empty_like(positions) for _ in parts]
        dist.all_gather(places, positions, group=group)
        return torch.empty_like(torch.cat(parts)).index_copy_(0, torch.cat(places),
                                                              torch.cat(parts))

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        dist.all_reduce(g, group=ctx.group)  # WRONG: declared is gradient="own_part"
        return g[ctx.positions], None, None


@lossgrid.implementation(rows="pack", gradient="own_part")
def gradient_summed_over_cp(logits, batch):
    """The vocabulary-parallel function, then one gather over CP of what is known by row."""
    own = VocabParallelLogprob.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)
    return GatherRows.apply(own, batch.positions, batch.cp.group)
