# SPDX-License-Identifier: Apache-2.0
"""Parts of the engines beside it: the ranks that share a parameter, and the loss of own rows."""
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "examples"))
from vocab_parallel import VocabParallelLogprob  # noqa: E402

_groups = {}


def supports(problem):
    return "the loss is nll" if problem.objective["kind"] != "nll" or problem.temperature != 1 \
        else ""


def data_ranks(batch):
    """Returns the world ranks over DP and CP that have the TP rank of this one."""
    return [rank for rank in range(batch.world.size) if rank % batch.tp.size == batch.tp.rank]


def data_group(batch):
    """Returns the process group of these ranks; all ranks of the world make all of them."""
    sizes = (batch.tp.size, batch.cp.size, batch.dp.size)
    if sizes not in _groups:
        everyone = range(batch.world.size)
        made = [dist.new_group([r for r in everyone if r % batch.tp.size == t])
                for t in range(batch.tp.size)]
        _groups[sizes] = made[batch.tp.rank]
    return _groups[sizes]


def loss_of_rows(model, batch, rows):
    """Returns the sum over own rows, divided by the valid tokens of the global batch."""
    logits = model(batch.split_cp(batch.ids_padded)[rows])
    logprobs = VocabParallelLogprob.apply(logits, batch.labels[rows], batch.vocab_start,
                                          batch.tp.group)
    logprobs = torch.where(batch.mask[rows], logprobs, torch.zeros_like(logprobs))
    return -logprobs.sum() / max(batch.denominators.valid_tokens, 1)


def microbatch_rows(batch, microbatches):
    """Returns the own rows of every microbatch: sequences are dealt in turn."""
    return [(batch.sequence % microbatches == k).nonzero()[:, 0] for k in range(microbatches)]


def whole(loss, batch):
    """Returns the sum of the losses of the ranks over CP and DP."""
    total = loss.detach().clone()
    for axis in (batch.cp, batch.dp):
        dist.all_reduce(total, group=axis.group)
    return total
