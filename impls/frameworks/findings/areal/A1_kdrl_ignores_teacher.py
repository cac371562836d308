# SPDX-License-Identifier: Apache-2.0
"""AReaL: the gradient of the joint distillation loss (KDRL) does not depend on the teacher."""
import support
import torch
from areal.trainer.ppo.actor import grpo_loss_fn
from support import gradient, show

torch.manual_seed(1)
n = 64
old = -torch.rand(n)
mask = torch.ones(n, dtype=torch.bool)


def grad(teacher, weight):
    lp = (old + 0.01).requires_grad_()
    data = {"logprobs": old, "advantages": torch.zeros(n), "loss_mask": mask, "prox_logp": old,
            "teacher_logp": teacher, "rl_loss_weight": weight, "distill_loss_weight": 0.5}
    return gradient(grpo_loss_fn(lp, torch.zeros(n), data, 0.2, None, None), lp)


for name, weight in (("joint", 1.0), ("pure", 0.0)):
    first, second = (grad(-5 * torch.rand(n), weight) for _ in range(2))
    show(f"{name}: largest difference of the gradients of two teachers, largest gradient",
         (float((first - second).abs().max()), float(first.abs().max())))
    equal = grad(old + 0.01, weight)
    show(f"{name}: student equal to teacher: largest gradient", float(equal.abs().max()), 0.0)
