# SPDX-License-Identifier: Apache-2.0
"""verl: the loss of geo_mean (GMPO) is a mean over the rows of each microbatch."""
import support
import torch
from support import gradient, show
from verl.trainer.ppo.core_algos import compute_policy_loss_geo_mean, compute_policy_loss_vanilla
from verl.workers.config import ActorConfig

torch.manual_seed(1)
rows, width = 8, 6
old = -torch.rand(rows, width)
lp = (old + 0.05 * torch.randn(rows, width)).requires_grad_()
advantages = torch.randn(rows, 1).expand(rows, width)
mask = torch.ones(rows, width)


def total(loss, parts, mask):
    """Returns the gradient that accumulates over ``parts`` microbatches."""
    config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
    config.global_batch_info.update(
        dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=rows)
    return sum(gradient(loss(old[p], lp[p], advantages[p], mask[p], "seq-mean-token-mean",
                             config)[0], lp) for p in torch.arange(rows).chunk(parts))


for loss in (compute_policy_loss_vanilla, compute_policy_loss_geo_mean):
    one = total(loss, 1, mask)
    for parts in (2, 4, 8):
        more = total(loss, parts, mask)
        show(f"{loss.__name__}, {parts} microbatches: gradient over that of one",
             float((more * one).sum() / (one * one).sum()), 1.0)
empty = mask.clone()
empty[4:] = 0  # four of eight sequences are rejected
wanted = gradient(compute_policy_loss_geo_mean(
    old[:4], lp[:4], advantages[:4], mask[:4], config=ActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1))[0], lp)
got = total(compute_policy_loss_geo_mean, 1, empty)
show("geo_mean, half of the sequences masked: gradient over that without them",
     float((got * wanted).sum() / (wanted * wanted).sum()), 1.0)
