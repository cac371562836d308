# SPDX-License-Identifier: Apache-2.0
"""Wrong: the gradient that is left is clipped already, which only a norm above 1 shows."""
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


@lossgrid.engine(supports=supports)
def clips_gradient(model, batch, evaluate):
    x = VocabParallelLogprob.apply(model(batch.split_cp(batch.ids_padded)), batch.labels,
                                   batch.vocab_start, batch.tp.group)
    x = torch.where(batch.mask, x, torch.zeros_like(x))
    loss = -x.sum() / max(batch.denominators.valid_tokens, 1)
    reported = loss.detach().clone()
    if not evaluate:
        loss.backward()
    for axis in (batch.cp, batch.dp):
        dist.all_reduce(reported, group=axis.group)
        if not evaluate:
            dist.all_reduce(model.weight.grad, group=axis.group)
    if not evaluate:
        squares = model.weight.grad.square().sum()
        dist.all_reduce(squares, group=batch.tp.group)
        model.weight.grad /= squares.sqrt().clamp(min=1.0)  # WRONG: part of the optimizer's step
    return reported
