# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel and FSDP2 as engines, armed and not armed."""
from contextlib import nullcontext

import lossgrid
import torch
from engine_kit import data_group, data_ranks, loss_of_rows, microbatch_rows, supports, whole
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def ddp_step(model, batch, evaluate, microbatches, arm=True, sync=True):
    """Both frameworks take the mean over the ranks, so losses are multiplied by their number."""
    ddp = DistributedDataParallel(model, process_group=data_group(batch))
    called = ddp if arm and not evaluate else model
    total = torch.zeros(())
    parts = microbatch_rows(batch, microbatches)
    for k, rows in enumerate(parts):
        last = k + 1 == len(parts)
        with nullcontext() if last and sync else ddp.no_sync():
            loss = loss_of_rows(called, batch, rows)
            if not evaluate:
                (loss * len(data_ranks(batch))).backward()
        total = total + loss.detach()
    return {"loss": whole(total, batch), "ranks": len(data_ranks(batch))}


def more_than_one_rank(problem):
    return supports(problem) or ("there is nothing to reduce" if
                                 problem.grid.dp * problem.grid.cp == 1 else "")


@lossgrid.engine(supports=supports)
def ddp(model, batch, evaluate, *, microbatches=2):
    return ddp_step(model, batch, evaluate, microbatches)


@lossgrid.engine(supports=more_than_one_rank)
def ddp_not_armed(model, batch, evaluate, *, microbatches=2):
    """Calls the module inside of the wrapper: no hook reduces."""
    return ddp_step(model, batch, evaluate, microbatches, arm=False)


@lossgrid.engine(supports=more_than_one_rank)
def ddp_never_syncs(model, batch, evaluate, *, microbatches=2):
    """Every microbatch is under no_sync, the last one too."""
    return ddp_step(model, batch, evaluate, microbatches, sync=False)


def fsdp_step(model, batch, evaluate, microbatches, ranks=None, sync=True):
    group = data_group(batch) if ranks is None else ranks.group
    fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu"))
    size = len(data_ranks(batch)) if ranks is None else ranks.size
    total = torch.zeros(())
    parts = microbatch_rows(batch, microbatches)
    for k, rows in enumerate(parts):
        model.set_requires_gradient_sync(sync and k + 1 == len(parts))
        loss = loss_of_rows(model, batch, rows)
        if not evaluate:
            (loss * size).backward()
        total = total + loss.detach()
    return whole(total, batch)


@lossgrid.engine(supports=supports, gradients="fsdp")
def fsdp(model, batch, evaluate, *, microbatches=2):
    return fsdp_step(model, batch, evaluate, microbatches)


@lossgrid.engine(supports=more_than_one_rank)
def fsdp_as_replicated(model, batch, evaluate, *, microbatches=2):
    """Declares what DDP leaves."""
    return fsdp_step(model, batch, evaluate, microbatches)


@lossgrid.engine(supports=more_than_one_rank, gradients="fsdp")
def fsdp_never_wraps(model, batch, evaluate, *, microbatches=2):
    return ddp_step(model, batch, evaluate, microbatches)


@lossgrid.engine(supports=more_than_one_rank, gradients="fsdp")
def fsdp_never_syncs(model, batch, evaluate, *, microbatches=2):
    return fsdp_step(model, batch, evaluate, microbatches, sync=False)


@lossgrid.engine(gradients="fsdp", supports=lambda p: supports(p) or (
    "" if p.grid.cp > 1 and p.grid.dp > 1 else "shards are over DP alone"))
def fsdp_without_cp(model, batch, evaluate, *, microbatches=1):
    """Shards over DP and forgets the sum over CP."""
    return fsdp_step(model, batch, evaluate, microbatches, ranks=batch.dp)
