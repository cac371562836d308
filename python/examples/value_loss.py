# SPDX-License-Identifier: Apache-2.0
"""The loss of a value head, which every TP rank has whole."""
import lossgrid
import torch
import torch.distributed as dist


def supports(problem):
    if problem.objective["kind"] != "value":
        return "the loss is that of values"
    if problem.objective["loss_agg_mode"] != "token-mean" or problem.objective["loss_type"] != "mse":
        return "the loss is a mean of squares over tokens"
    return ""


@lossgrid.implementation(returns="loss", takes="values", supports=supports)
def value_loss(values, batch):
    """Clipped squares, mean over the valid tokens of the global batch; no communication over TP."""
    options = batch.objective
    keep = batch.mask.nonzero()[:, 0]  # masked rows may hold anything
    v = values[keep, 0].to(torch.promote_types(values.dtype, torch.float32))
    target = batch.returns[keep]
    loss = (v - target) ** 2 / 2
    e = options["cliprange_value"]
    if e is not None:
        old = batch.old_values[keep]
        clipped = torch.maximum(torch.minimum(v, old + e), old - e)
        clipped = torch.where((v >= old - e) & (v <= old + e), v, clipped)  # ends are inside
        loss = torch.max(loss, (clipped - target) ** 2 / 2)
    own = options["scale"] * loss.sum() / max(batch.denominators.valid_tokens, 1)
    whole = own.detach().clone()
    dist.all_reduce(whole, group=batch.cp.group)
    return whole + (own - own.detach())  # value of the pack, gradient of the own rows
