# SPDX-License-Identifier: Apache-2.0
"""Wrong: the evaluation reports losses after the schedule changed them."""
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


def supports(problem):
    if problem.objective["kind"] != "nll":
        return "the loss is nll"
    return "" if problem.temperature == 1 else "temperature is not 1"


def schedule(losses, cp):
    """Megatron's: every loss is multiplied by cp and divided by the number of microbatches."""
    return [loss * cp / len(losses) for loss in losses]


@lossgrid.engine(supports=supports)
def evaluation_loss_scaled(model, batch, evaluate, *, microbatches=2):
    """Sequences are dealt to the microbatches in turn."""
    losses = []
    for number in range(microbatches):
        own = (batch.sequence % microbatches == number).nonzero()[:, 0]
        logits = model(batch.split_cp(batch.ids_padded)[own])
        x = VocabParallelLogprob.apply(logits, batch.labels[own], batch.vocab_start,
                                       batch.tp.group)
        x = torch.where(batch.mask[own], x, torch.zeros_like(x))
        losses.append(-x.sum() / max(batch.denominators.valid_tokens, 1))
    if evaluate:
        losses = schedule(losses, batch.cp.size)  # WRONG: reported are cp / microbatches of it
    reported = sum(loss.detach().clone() for loss in losses)
    undone = [loss * microbatches / batch.cp.size for loss in losses]
    for loss in schedule(undone, batch.cp.size):
        if not evaluate:
            loss.backward()
    for axis in (batch.cp, batch.dp):
        dist.all_reduce(reported, group=axis.group)
        if not evaluate:
            dist.all_reduce(model.weight.grad, group=axis.group)
    return reported
