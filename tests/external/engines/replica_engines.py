# SPDX-License-Identifier: Apache-2.0
"""Engines that reduce by hand: a right one, one in slices, and mistakes of the reduction."""
import lossgrid
import torch
import torch.distributed as dist
from engine_kit import data_group, data_ranks, loss_of_rows, microbatch_rows, supports, whole


def place(batch):
    """Returns the number of this rank over DP and CP, and how many there are."""
    ranks = data_ranks(batch)
    return ranks.index(batch.world.rank), len(ranks)


def local_step(model, batch, evaluate):
    """Returns the loss of own rows and leaves their gradient."""
    loss = loss_of_rows(model, batch, torch.arange(len(batch.sequence)))
    if not evaluate:
        loss.backward()
    return loss.detach()


def add_up(tensor, *axes):
    for axis in axes:
        dist.all_reduce(tensor, group=axis.group)


def replicated(name, reduce, report=whole):
    """Declares an engine: ``reduce`` changes the gradient, ``report`` the loss of own rows."""
    @lossgrid.engine(name=name, supports=supports)
    def step(model, batch, evaluate):
        loss = local_step(model, batch, evaluate)
        if not evaluate:
            reduce(model.weight.grad, batch)
        return report(loss, batch)


def all_of_it(gradient, batch):
    add_up(gradient, batch.cp, batch.dp)


def to_one_rank(gradient, batch):
    dist.reduce(gradient, dst=data_ranks(batch)[0], group=data_group(batch))
    if place(batch)[0] > 0:
        gradient.zero_()


def in_own_order(gradient, batch):
    """Adds up from the own rank on: bits differ between ranks."""
    number, size = place(batch)
    parts = [torch.empty_like(gradient) for _ in range(size)]
    dist.all_gather(parts, gradient, group=data_group(batch))
    gradient.copy_(parts[number])
    for k in range(1, size):
        gradient.add_(parts[(number + k) % size])


def twice_over_dp(gradient, batch):
    add_up(gradient, batch.cp, batch.dp, batch.dp)


def loss_of_own_rows(loss, batch):
    return loss * place(batch)[1]


def loss_on_one_rank(loss, batch):
    return whole(loss, batch) if place(batch)[0] == 0 else None


def loss_over_cp(loss, batch):
    total = loss.clone()
    add_up(total, batch.cp)
    return total * batch.dp.size


def with_metric(loss, batch):
    return {"loss": whole(loss, batch), "tokens": batch.mask.sum()}


replicated("right", all_of_it)
replicated("gradient_of_own_rows", lambda g, b: None)
replicated("gradient_not_over_dp", lambda g, b: add_up(g, b.cp))
replicated("gradient_not_over_cp", lambda g, b: add_up(g, b.dp))
replicated("gradient_on_one_rank", to_one_rank)
replicated("gradient_twice_over_dp", twice_over_dp)
replicated("gradient_in_own_order", in_own_order)
replicated("loss_of_own_rows", all_of_it, loss_of_own_rows)
replicated("loss_on_one_rank", all_of_it, loss_on_one_rank)
replicated("loss_of_dp_rank", all_of_it, loss_over_cp)
replicated("metric_of_own_rows", all_of_it, with_metric)


def in_microbatches(name, wrong):
    """Declares an engine of three microbatches; ``wrong`` is what it gets wrong about them."""
    @lossgrid.engine(name=name, supports=supports)
    def step(model, batch, evaluate, *, microbatches=3):
        reported, buffer = torch.zeros(()), torch.zeros_like(model.weight)
        for rows in microbatch_rows(batch, microbatches):
            model.weight.grad = None
            loss = loss_of_rows(model, batch, rows)
            if not evaluate:
                loss.backward()
                if wrong == "gradient doubles":  # the sum of those before is added to itself
                    buffer *= 2
                if wrong == "gradient of the last":
                    buffer.zero_()
                buffer += model.weight.grad
            reported = loss.detach() if wrong == "loss of the last" else reported + loss.detach()
        if not evaluate:
            all_of_it(buffer, batch)
            model.weight.grad = buffer
        return whole(reported, batch)


in_microbatches("microbatches_right", "")
in_microbatches("gradient_doubles", "gradient doubles")
in_microbatches("gradient_of_last_microbatch", "gradient of the last")
in_microbatches("loss_of_last_microbatch", "loss of the last")


def sliced(name, own_range, reduce=all_of_it):
    """Declares an engine that leaves slices; ``own_range`` is that of a rank's number."""
    @lossgrid.engine(name=name, supports=supports, gradients="zero")
    def step(model, batch, evaluate):
        loss = local_step(model, batch, evaluate)
        number, ranks = place(batch)
        begin, end = own_range(number, ranks, model.weight.numel())
        if not evaluate:  # as if a reduce-scatter had left this slice alone
            reduce(model.weight.grad, batch)
            flat = model.weight.grad.view(-1)
            flat[:begin] = float("nan")
            flat[end:] = float("nan")
        return {"loss": whole(loss, batch), "own": (begin, end)}


def slice_of(number, ranks, elements):
    size = -(-elements // ranks)
    return min(number * size, elements), min((number + 1) * size, elements)


def overlapping(number, ranks, elements):
    begin, end = slice_of(number, ranks, elements)
    return max(begin - 1, 0), end


def with_gap(number, ranks, elements):
    begin, end = slice_of(number, ranks, elements)
    return min(begin + 1, end), end


sliced("slices", slice_of)
sliced("slices_not_reduced", slice_of, lambda g, b: None)
sliced("slices_of_ranks_times_own_rows", slice_of, lambda g, b: g.mul_(place(b)[1]))
sliced("slices_not_over_cp", slice_of, lambda g, b: add_up(g, b.dp))
sliced("slices_not_over_dp", slice_of, lambda g, b: add_up(g, b.cp))
sliced("slices_overlap", overlapping)
sliced("slices_with_gaps", with_gap)
sliced("slices_are_everything", lambda number, ranks, elements: (0, elements))


@lossgrid.engine(supports=supports, gradients="zero")
def slices_unnamed(model, batch, evaluate):
    loss = local_step(model, batch, evaluate)
    if not evaluate:
        all_of_it(model.weight.grad, batch)
    return whole(loss, batch)


@lossgrid.engine(supports=supports)
def slices_as_replicas(model, batch, evaluate):
    """Leaves slices, 0 elsewhere, and declares that every rank has the whole."""
    loss = local_step(model, batch, evaluate)
    if not evaluate:
        all_of_it(model.weight.grad, batch)
        begin, end = slice_of(*place(batch), model.weight.numel())
        flat = model.weight.grad.view(-1)
        flat[:begin] = 0
        flat[end:] = 0
    return whole(loss, batch)
