# SPDX-License-Identifier: Apache-2.0
"""Functions whose collectives are known. Each prints nothing and returns log-probabilities."""
import lossgrid
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable


class Probe(torch.autograd.Function):
    """Calls ``there`` in the forward and ``back`` in the backward."""

    @staticmethod
    def forward(ctx, x, there, back):
        ctx.back = back
        there()
        return x * 1

    @staticmethod
    def backward(ctx, g):
        ctx.back()
        return g * 1, None, None


def _probe(logits, there, back=lambda: None):
    return Probe.apply(torch.log_softmax(logits, 1)[:, 0], there, back)


def _nothing():
    pass


@lossgrid.implementation
def no_calls(logits, batch):
    return _probe(logits, _nothing)


@lossgrid.implementation
def common_calls(logits, batch):
    """Collectives that every version of torch has on gloo."""
    tp, world = batch.tp, batch.world
    ones = torch.ones(5)

    def there():
        dist.all_reduce(ones.clone(), op=dist.ReduceOp.MAX, group=tp.group)
        dist.all_reduce(torch.ones(3, dtype=torch.float64), group=world.group)
        dist.all_reduce(torch.ones(2), async_op=True).wait()  # the default group
        dist.all_gather([torch.empty(5) for _ in range(tp.size)], ones, group=tp.group)
        dist.broadcast(torch.ones(7, dtype=torch.float16), 0, group=world.group)
        dist.all_reduce(torch.ones(1), group=batch.cp.group)
        dist.reduce(torch.ones(4), 0, op=dist.ReduceOp.MIN, group=world.group)
        dist.barrier(group=world.group)

    def back():
        dist.all_reduce(ones.clone(), group=batch.dp.group)

    return _probe(logits, there, back)


@lossgrid.implementation
def newer_calls(logits, batch):
    """Collectives that gloo of torch 1.13 does not have."""
    n, group = batch.tp.size, batch.tp.group

    def there():
        dist.all_gather_into_tensor(torch.empty(4 * n), torch.ones(4), group=group)
        dist.reduce_scatter(torch.empty(3), [torch.ones(3) for _ in range(n)], group=group)
        dist.reduce_scatter_tensor(torch.empty(3), torch.ones(3 * n), op=dist.ReduceOp.MAX,
                                   group=group)
        dist.all_to_all([torch.empty(2) for _ in range(n)], [torch.ones(2) for _ in range(n)],
                        group=group)

    return _probe(logits, there)


@lossgrid.implementation
def all_to_all_single(logits, batch):
    n = batch.tp.size
    return _probe(logits, lambda: dist.all_to_all_single(torch.empty(2 * n), torch.ones(2 * n),
                                                         group=batch.tp.group))


@lossgrid.implementation
def functional_calls(logits, batch):
    import torch.distributed._functional_collectives as functional
    n, group = batch.tp.size, batch.tp.group

    def there():
        one = functional.all_reduce(torch.ones(6), "sum", group) + 0
        assert one[0] == n
        functional.all_gather_tensor(torch.ones(4), 0, group) + 0
        functional.reduce_scatter_tensor(torch.ones(2 * n), "max", 0, group) + 0

    return _probe(logits, there)


@lossgrid.implementation
def differentiable_calls(logits, batch):
    """torch.distributed.nn: the backward communicates too."""
    lp = torch.log_softmax(logits, 1)[:, 0]
    return differentiable.all_reduce(lp, group=batch.world.group)


@lossgrid.implementation
def own_group(logits, batch):
    """Groups that the function makes itself."""
    same = dist.new_group(list(batch.tp.ranks))
    return _probe(logits, lambda: dist.all_reduce(torch.ones(1), group=same))


@lossgrid.implementation
def joins(logits, batch):
    return batch.split_cp(batch.join_cp(torch.log_softmax(logits, 1)[:, 0]))


@lossgrid.implementation
def prints_backend(logits, batch):
    print(dist.get_backend(batch.tp.group))
    return torch.log_softmax(logits, 1)[:, 0]


# Memory: bytes are those of float32 [rows, columns] or of float32 [rows].

@lossgrid.implementation
def holds_two(logits, batch):
    """Forward: two tensors of the size of the logits at once, one is freed before the third."""
    with torch.no_grad():
        a = logits + 1
        b = a + 1
        del a
        c = b + 1
        del b, c
    return logits[:, 0]


@lossgrid.implementation
def views_and_in_place(logits, batch):
    """One tensor; views of it and changes in place hold nothing more."""
    with torch.no_grad():
        a = logits.clone()
        b = a.view(-1)[1:].add_(1)
        a.t().mul_(2)
        batch.labels_ignore + 0  # made lazily: not of the function, but the sum is
        del a, b
    return logits[:, 0]


class _Saves(torch.autograd.Function):
    """Saves one tensor of the size of the logits; its backward makes one more and frees both."""

    @staticmethod
    def forward(ctx, logits):
        ctx.saved = logits * 2
        return ctx.saved[:, 0].clone()

    @staticmethod
    def backward(ctx, g):
        dz = ctx.saved * g[:, None]
        del ctx.saved
        return dz + 1


@lossgrid.implementation
def saves(logits, batch):
    return _Saves.apply(logits)


@lossgrid.implementation
def saved_by_autograd(logits, batch):
    """exp saves its result in the graph: held where no name holds it."""
    return logits.exp().sum(1)
