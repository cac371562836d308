# SPDX-License-Identifier: Apache-2.0
"""Functions whose outputs show what a collective wrote."""
import lossgrid
import torch
import torch.distributed as dist


def _shown(logits, values):
    """Rows of outputs that begin with ``values``."""
    rows = torch.zeros(logits.shape[0])
    flat = values.detach().float().reshape(-1)
    rows[:flat.numel()] = flat
    return rows + logits[:, 0] * 0


@lossgrid.implementation
def shows_all_reduce(logits, batch):
    x = torch.tensor([1.0 + batch.world.rank, 10.0])
    work = dist.all_reduce(x, group=batch.tp.group, async_op=True)
    work.wait()
    assert work.is_completed()
    return _shown(logits, x)


@lossgrid.implementation
def shows_max(logits, batch):
    x = torch.tensor([1.0 + batch.world.rank])
    dist.all_reduce(x, op=dist.ReduceOp.MAX, group=batch.tp.group)
    return _shown(logits, x)


@lossgrid.implementation
def shows_all_gather(logits, batch):
    parts = [torch.full((1,), 7.0) for _ in range(batch.tp.size)]
    dist.all_gather(parts, torch.tensor([1.0 + batch.world.rank]), group=batch.tp.group)
    return _shown(logits, torch.cat(parts))


@lossgrid.implementation
def shows_broadcast(logits, batch):
    x = torch.tensor([1.0 + batch.world.rank])
    dist.broadcast(x, batch.tp.ranks[0], group=batch.tp.group)
    return _shown(logits, x)


@lossgrid.implementation
def shows_newer(logits, batch):
    n, group, rank = batch.tp.size, batch.tp.group, 1.0 + batch.world.rank
    gathered = torch.full((n,), 7.0)
    dist.all_gather_into_tensor(gathered, torch.tensor([rank]), group=group)
    scattered = torch.full((1,), 7.0)
    dist.reduce_scatter_tensor(scattered, torch.arange(n) + rank * 10, group=group)
    return _shown(logits, torch.cat([gathered, scattered]))


@lossgrid.implementation
def shows_functional(logits, batch):
    import torch.distributed._functional_collectives as functional
    x = functional.all_reduce(torch.tensor([1.0 + batch.world.rank]), "sum", batch.tp.group) + 0
    y = functional.all_gather_tensor(torch.tensor([1.0 + batch.world.rank]), 0, batch.tp.group) + 0
    return _shown(logits, torch.cat([x, y]))


@lossgrid.implementation
def shows_all_to_all(logits, batch):
    n = batch.tp.size
    x = torch.full((n,), 7.0)
    dist.all_to_all_single(x, torch.arange(n) + 10.0 * (1 + batch.world.rank),
                           group=batch.tp.group)
    return _shown(logits, x)


@lossgrid.implementation
def shows_labels(logits, batch):
    whole = torch.cat([batch.labels, batch.labels_padded, batch.ids_padded])
    return _shown(logits, whole[:logits.shape[0]])


@lossgrid.implementation
def counts_masks(logits, batch):
    masks = (batch.mask, batch.pack.mask, batch.tokens.mask, batch.sample_mask,
             batch.labels_ignore != -100, batch.attention_mask)
    return _shown(logits, torch.stack([one.sum() for one in masks]))
