# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities and entropies of a vocabulary that is split over TP."""
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
        sums = torch.stack([p.sum(1), torch.zeros_like(top), torch.zeros_like(top)])
        z = torch.where(p > 0, z, torch.zeros_like(z))  # 0 log 0 is 0, not NaN
        sums[1] = (p * z).sum(1)
        column = labels - start
        own = ((column >= 0) & (column < z.shape[1])).nonzero()[:, 0]
        column = column[own]
        sums[2, own] = logits[own, column].to(z.dtype) - top[own]
        dist.all_reduce(sums, group=group)
        log_total = sums[0].log()
        entropy = log_total - sums[1] / sums[0]
        p.div_(sums[0][:, None])
        ctx.save_for_backward(p, z.sub_(log_total[:, None]), entropy, own, column)
        ctx.dtype = logits.dtype
        return sums[2] - log_total, entropy

    @staticmethod
    def backward(ctx, g_logprob, g_entropy):
        p, logp, entropy, own, column = ctx.saved_tensors
        dz = -p * (g_logprob[:, None] + g_entropy[:, None] * (logp + entropy[:, None]))
        dz[own, column] += g_logprob[own]
        dz[(g_logprob == 0) & (g_entropy == 0)] = 0  # whatever padded and masked rows hold
        return dz.to(ctx.dtype), None, None, None


@lossgrid.implementation(returns=("logprobs", "entropy"), takes="layouts")
def entropy(logits, batch):
    """Two all-reduces over TP: of the maximum, and of three sums."""
    return LogprobAndEntropy.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)
