# SPDX-License-Identifier: Apache-2.0
"""A train step and an evaluation with microbatches, a schedule's factor, CP and DP."""
import lossgrid
import torch
import torch.distributed as dist
from vocab_parallel import VocabParallelLogprob


def supports(problem):
    if problem.objective["kind"] != "nll":
        return "the loss is nll"
    return "" if problem.temperature == 1 else "temperature is not 1"


def schedule(losses, cp):
    """Megatron's: every loss is multiplied by cp and divided by the number of microbatches."""
    return [loss * cp / len(losses) for loss in losses]


@lossgrid.engine(supports=supports)
def bigram_engine(model, batch, evaluate, *, microbatches=2):
    """Sequences are dealt to the microbatches in turn."""
    losses = []
    for number in range(microbatches):
        own = (batch.sequence % microbatches == number).nonzero()[:, 0]
        logits = model(batch.split_cp(batch.ids_padded)[own])
        x = VocabParallelLogprob.apply(logits, batch.labels[own], batch.vocab_start,
                                       batch.tp.group)
        x = torch.where(batch.mask[own], x, torch.zeros_like(x))
        losses.append(-x.sum() / max(batch.denominators.valid_tokens, 1))
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
