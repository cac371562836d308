# SPDX-License-Identifier: Apache-2.0
"""Wrong: the backward of the gather adds up what all CP ranks have."""
import lossgrid
import torch
import torch.distributed as dist


class VocabParallelLogprob(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, start, group):
        z = logits if logits.dtype == torch.float64 else logits.float()
        top = z.amax(1) if z.shape[1] else z.new_full((z.shape[0],), float("-inf"))
        dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
        column = labels - start
        own = ((column >= 0) & (column < z.shape[1])).nonzero()[:, 0]
        column = column[own]
        target = torch.zeros_like(top)
        target[own] = z[own, column] - top[own]
        dist.all_reduce(target, group=group)
        p = torch.exp(z - top[:, None])
        total = p.sum(1)
        dist.all_reduce(total, group=group)
        ctx.save_for_backward(p.div_(total[:, None]), own, column)
        ctx.dtype = logits.dtype
        return target - total.log()

    @staticmethod
    def backward(ctx, g):
        p, own, column = ctx.saved_tensors
        dz = -p * g[:, None]
        dz[own, column] += g[own]
        dz[g == 0] = 0  # whatever padded and masked rows hold
        return dz.to(ctx.dtype), None, None, None


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
