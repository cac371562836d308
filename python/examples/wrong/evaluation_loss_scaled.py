# SPDX-License-Identifier: Apache-2.0
"""Wrong: the evaluation reports losses after the schedule changed them."""
import os
import sys

import lossgrid
import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from vocab_parallel import VocabParallelLogprob  # noqa: E402


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
