# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's DistributedDataParallel with its distributed optimizer, armed and not armed."""
import lossgrid
import torch
from engine_kit import loss_of_rows, microbatch_rows, supports, whole
from lossgrid import stubs

stubs.no_cuda()
lossgrid.packages("megatron-core")
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel, DistributedDataParallelConfig)
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402


class Model(torch.nn.Module):
    """The bigram beside the configuration that Megatron reads from a model."""

    def __init__(self, bigram):
        super().__init__()
        self.bigram = bigram
        self.config = TransformerConfig(num_layers=1, hidden_size=1, num_attention_heads=1)

    def forward(self, ids):
        return self.bigram(ids)


def step(model, batch, evaluate, microbatches, distributed_optimizer, sync=True):
    """Megatron takes the mean over DP x CP, so losses are multiplied by the number of ranks."""
    ranks = batch.dp.size * batch.cp.size
    total = torch.zeros(())
    if evaluate:
        for rows in microbatch_rows(batch, microbatches):
            total += loss_of_rows(model, batch, rows).detach()
        return {"loss": whole(total, batch), "own": (0, model.weight.numel())}
    own = Model(model)
    ddp = DistributedDataParallel(own.config, DistributedDataParallelConfig(
        grad_reduce_in_fp32=True, use_distributed_optimizer=distributed_optimizer), own)
    ddp.zero_grad_buffer()
    with ddp.no_sync():
        for rows in microbatch_rows(batch, microbatches):
            loss = loss_of_rows(ddp, batch, rows)
            (loss * ranks).backward()
            total += loss.detach()
    if sync:
        ddp.finish_grad_sync()
    model.weight.grad = model.weight.main_grad.detach().clone().view_as(model.weight)
    report = {"loss": whole(total, batch)}
    if distributed_optimizer:
        report["own"] = own_slice(ddp, model.weight)
    return report


def own_slice(ddp, weight):
    """Returns the elements that the distributed optimizer of this rank keeps.

    The optimizer itself takes parameters of a GPU only; its ranges are made without it.
    """
    for buffer in ddp.buffers:
        for buckets in DistributedOptimizer._build_gbuf_range_map(buffer).values():
            for bucket in buckets:
                if weight in bucket["param_map"]:
                    own = bucket["param_map"][weight]["param"]
                    return own.start, own.end
    return 0, 0


def supported(problem):
    return supports(problem) or ("Megatron pads a vocabulary to equal shards"
                                 if problem.vocab % problem.grid.tp else "")


def more_than_one_rank(problem):
    return supported(problem) or ("there is nothing to reduce" if
                                  problem.grid.dp * problem.grid.cp == 1 else "")


@lossgrid.engine(megatron=True, supports=supported)
def megatron_ddp(model, batch, evaluate, *, microbatches=2):
    return step(model, batch, evaluate, microbatches, distributed_optimizer=False)


@lossgrid.engine(megatron=True, supports=more_than_one_rank, gradients="zero")
def megatron_distributed_optimizer(model, batch, evaluate, *, microbatches=2):
    return step(model, batch, evaluate, microbatches, distributed_optimizer=True)


@lossgrid.engine(megatron=True, supports=more_than_one_rank)
def megatron_ddp_never_syncs(model, batch, evaluate, *, microbatches=2):
    return step(model, batch, evaluate, microbatches, distributed_optimizer=False, sync=False)


@lossgrid.engine(megatron=True, supports=more_than_one_rank, gradients="zero")
def megatron_distributed_optimizer_never_syncs(model, batch, evaluate, *, microbatches=2):
    return step(model, batch, evaluate, microbatches, distributed_optimizer=True, sync=False)


@lossgrid.engine(megatron=True, supports=more_than_one_rank)
def megatron_slices_as_replicas(model, batch, evaluate, *, microbatches=2):
    """Leaves slices and declares that every rank has the whole."""
    return step(model, batch, evaluate, microbatches, distributed_optimizer=True)
