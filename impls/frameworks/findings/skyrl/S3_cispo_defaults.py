# SPDX-License-Identifier: Apache-2.0
"""SkyRL: by default CISPO raises every ratio below 1 to 1."""
import support
import torch
from support import gradient, show
from skyrl.backends.skyrl_train.utils.ppo_utils import compute_policy_loss_cispo
from skyrl.train.config.config import AlgorithmConfig

config = AlgorithmConfig(policy_loss_type="cispo")
show("defaults low, high", (config.cispo.cispo_eps_clip_low, config.cispo.cispo_eps_clip_high))
for ratio in (0.01, 0.1, 0.5, 1.0, 4.0):
    lp = torch.tensor([[-1.0]], requires_grad=True)
    old = lp.detach() - torch.tensor(ratio).log()
    loss, metrics = compute_policy_loss_cispo(lp, old, torch.ones(1, 1), config, torch.ones(1, 1))
    show(f"ratio {ratio}: weight in the gradient", float(-gradient(loss, lp)), ratio)
