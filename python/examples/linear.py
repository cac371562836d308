# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities from hidden states and an LM head, a few rows of logits at a time."""
import lossgrid
import torch
import torch.distributed as dist


def supports(problem):
    return "hidden states that are split over TP are not gathered" if problem.sequence_parallel \
        else ""


@lossgrid.implementation(inputs="hidden", autograd="own", takes="bias", supports=supports)
def linear(hidden, weight, batch, *, chunk=64):
    """Makes the logits of ``chunk`` rows at a time, and again in the backward."""
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    by_id = batch.weight_layout == "vocab_hidden"
    w = (weight if by_id else weight.t()).to(wide) / batch.temperature  # [V_t, H]
    b = None if batch.bias is None else batch.bias.to(wide) / batch.temperature  # [V_t]

    def logits(h):
        return h @ w.t() if b is None else h @ w.t() + b

    group, labels = batch.tp.group, batch.labels - batch.vocab_start
    chunks = [slice(i, i + chunk) for i in range(0, len(hidden), chunk)]
    own = (labels >= 0) & (labels < len(w))
    column = labels.clamp(0, max(len(w) - 1, 0))

    top = torch.full((len(hidden),), float("-inf"), dtype=wide)
    sums = torch.zeros(2, len(hidden), dtype=wide)  # of exp(z - own top), of the target
    for rows in chunks if len(w) else []:
        z = logits(hidden[rows].to(wide))
        top[rows] = z.amax(1)
        sums[0, rows] = torch.exp(z - top[rows, None]).sum(1)
        sums[1, rows] = torch.where(own[rows], z.gather(1, column[rows, None])[:, 0], sums[1, rows])
    whole_top = top.clone()
    dist.all_reduce(whole_top, op=dist.ReduceOp.MAX, group=group)
    sums[0] *= torch.exp(top - whole_top)
    sums[1] -= torch.where(own, whole_top, torch.zeros_like(whole_top))
    dist.all_reduce(sums, group=group)
    log_total = sums[0].log()

    def backward(g):
        g = g.to(wide)
        d_hidden = torch.zeros(hidden.shape, dtype=wide)
        d_w = torch.zeros(w.shape, dtype=wide)  # wide: a sum over many chunks
        d_b = torch.zeros(len(w), dtype=wide)
        for rows in chunks if len(w) else []:
            used = (g[rows] != 0)[:, None]
            h = torch.where(used, hidden[rows].to(wide), torch.zeros((), dtype=wide))
            dz = -torch.exp(logits(h) - (whole_top + log_total)[rows, None]) * g[rows, None]
            dz = torch.where(used, dz, torch.zeros_like(dz))
            dz[own[rows], column[rows][own[rows]]] += g[rows][own[rows]]
            d_hidden[rows] = dz @ w
            d_w += dz.t() @ h
            d_b += dz.sum(0)
        dist.all_reduce(d_hidden, group=group)
        d_w /= batch.temperature
        gradients = d_hidden, d_w if by_id else d_w.t()
        return gradients if b is None else (*gradients, d_b / batch.temperature)

    return sums[1] - log_total, backward
