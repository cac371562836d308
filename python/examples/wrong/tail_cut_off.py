# SPDX-License-Identifier: Apache-2.0
"""Wrong: the entropy leaves out ids with a probability below 1e-10, as a guard of its logarithm."""
import lossgrid
import torch
import torch.distributed as dist


class LogprobAndEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, start, group):
        z = logits if logits.dtype == torch.float64 else logits.float()
        top = z.amax(1) if z.shape[1] else z.new_full((z.shape[0],), float("-inf"))
        dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
        z = z - top[:, None]
        p = torch.exp(z)
        total = p.sum(1)
        dist.all_reduce(total, group=group)
        p.div_(total[:, None])
        logp = z - total.log()[:, None]
        logp = torch.where(p > 1e-10, logp, torch.zeros_like(logp))  # WRONG: drops the tail
        column = labels - start
        own = ((column >= 0) & (column < z.shape[1])).nonzero()[:, 0]
        column = column[own]
        sums = torch.zeros(2, len(z), dtype=z.dtype, device=z.device)
        sums[0, own] = z[own, column]
        sums[1] = -(p * logp).sum(1)
        dist.all_reduce(sums, group=group)
        entropy = sums[1]
        ctx.save_for_backward(p, logp, entropy, own, column)
        ctx.dtype = logits.dtype
        return sums[0] - total.log(), entropy

    @staticmethod
    def backward(ctx, g_logprob, g_entropy):
        p, logp, entropy, own, column = ctx.saved_tensors
        dz = -p * (g_logprob[:, None] + g_entropy[:, None] * (logp + entropy[:, None]))
        dz[own, column] += g_logprob[own]
        dz[(g_logprob == 0) & (g_entropy == 0)] = 0  # whatever padded and masked rows hold
        return dz.to(ctx.dtype), None, None, None


@lossgrid.implementation(returns=("logprobs", "entropy"))
def tail_cut_off(logits, batch):
    """Right to float32 as long as the vocabulary is small."""
    return LogprobAndEntropy.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)
