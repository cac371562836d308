# SPDX-License-Identifier: Apache-2.0
"""SkyRL: the KL term of kl_cov is not divided by the number of tokens, advantages are."""
import support
import torch
from support import gradient, show
from skyrl.backends.skyrl_train.utils.ppo_utils import (
    apply_loss_reduction_to_advantages_minibatch as reduce, compute_policy_loss_kl_cov)
from skyrl.train.config.config import AlgorithmConfig

config = AlgorithmConfig(policy_loss_type="kl_cov")
for rows in (4, 64):
    torch.manual_seed(1)
    width = 64
    old = -torch.rand(rows, width)
    lp = (old + 0.1 * torch.rand(rows, width) + 0.01).requires_grad_()
    mask = torch.ones(rows, width)
    advantages = torch.randn(rows, 1).expand(rows, width)
    scaled = reduce(advantages, mask, "token_mean", rows, width)
    loss, _ = compute_policy_loss_kl_cov(lp, old, scaled, config, mask)
    g = gradient(loss, lp)
    kl = g + scaled * (lp.detach() - old).exp()  # what is left without the policy term
    chosen = kl.abs() > 0.5
    show(f"{rows * width} tokens: gradient of the KL term over its coefficient / tokens",
         float(kl[chosen].mean()) / (config.kl_cov.ppo_kl_coef / (rows * width)), 1.0)
    show("   norm of the gradient of the KL term over that of the policy term",
         float(kl.norm() / (scaled * lp.detach().sub(old).exp()).norm()))
