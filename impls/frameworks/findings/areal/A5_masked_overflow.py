# SPDX-License-Identifier: Apache-2.0
"""AReaL: a masked token whose ratio overflows makes its gradient NaN."""
import support
import torch
from areal.utils.functional.functional import ppo_actor_loss_fn
from support import gradient, show

lp = torch.tensor([-1.0, -1.0, -1.0], requires_grad=True)
prox = torch.tensor([-1.0, -1.0, -100.0])
mask = torch.tensor([True, True, False])
loss, _ = ppo_actor_loss_fn(lp, prox, prox, torch.ones(3), 0.2, mask)
show("loss", float(loss), -1.0)
show("gradient", gradient(loss, lp).tolist(), [-0.5, -0.5, 0.0])
