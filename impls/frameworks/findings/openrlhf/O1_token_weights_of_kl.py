# SPDX-License-Identifier: Apache-2.0
"""OpenRLHF: KL term and entropy bonus are token means where the policy loss is not."""
import inspect

import support
import torch
support.flash_attn()
from openrlhf.models.loss import PolicyLoss, aggregate_loss
from openrlhf.trainer.ray.ppo_actor import ActorPPOTrainer
from support import gradient, show

lines = [line.strip() for line in inspect.getsource(ActorPPOTrainer.training_step).splitlines()]
print([line for line in lines if "aggregate_loss" in line or "token_level_loss" in line])
mask = (torch.arange(99) < torch.tensor([1, 99])[:, None]).float()
info = {"dp_size": 1, "batch_num_tokens": mask.sum(), "global_batch_size": torch.tensor(2.0)}
lp = torch.zeros(2, 99, requires_grad=True)
loss = PolicyLoss(token_level_loss=False)(lp, lp.detach(), torch.ones(2, 99), mask, **info)[0]
show("policy: sums of the gradient of a sequence of 1 and one of 99 tokens",
     (gradient(loss, lp) * mask).sum(1).tolist())
kl = aggregate_loss(lp, mask, **info)  # the call of training_step
show("KL term and entropy bonus: the same", (gradient(kl, lp) * mask).sum(1).tolist(), [0.5, 0.5])
