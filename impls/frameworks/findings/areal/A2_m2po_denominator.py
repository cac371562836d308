# SPDX-License-Identifier: Apache-2.0
"""AReaL: M2PO takes tokens out of the denominator of a microbatch and not out of its weight."""
import support
import torch
from areal.trainer.ppo.actor import grpo_loss_fn
from support import gradient, show

n = 8
advantages = torch.ones(2 * n)
mask = torch.ones(2 * n, dtype=torch.bool)
old = torch.zeros(2 * n) - 1
prox = old.clone()
prox[n:] += torch.tensor([3.0] * 6 + [0.0] * 2)  # six of the second eight tokens are far away


def weight_of(data):
    """Returns the weight that PPOActor.ppo_update gives a microbatch."""
    return data["loss_mask"].count_nonzero()


def total(parts, threshold):
    lp = prox.clone().requires_grad_()
    whole = 0
    for p in parts:
        data = {"logprobs": old[p], "advantages": advantages[p], "loss_mask": mask[p],
                "prox_logp": prox[p]}
        loss = grpo_loss_fn(lp[p], torch.zeros(len(lp[p])), data, 0.2, None, None,
                            m2_threshold=threshold)
        whole = whole + loss * weight_of(data) / (2 * n)  # AReaL's weight of a microbatch
    return -gradient(whole, lp) * 2 * n


both, halves = [slice(0, 2 * n)], [slice(0, n), slice(n, 2 * n)]
for name, parts in (("one microbatch", both), ("two", halves)):
    g = total(parts, 0.04)
    show(f"{name}: gradient of kept tokens of the first and second half, times the tokens",
         (round(float(g[0]), 4), round(float(g[-1]), 4), f"{int((g != 0).sum())} of {2 * n} kept"))
