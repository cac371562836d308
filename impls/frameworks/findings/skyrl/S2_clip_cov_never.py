# SPDX-License-Identifier: Apache-2.0
"""SkyRL: clip_cov compares covariances of divided advantages with bounds for whole ones."""
import support
import torch
from support import show
from skyrl.backends.skyrl_train.utils.ppo_utils import (
    apply_loss_reduction_to_advantages_minibatch as reduce, compute_policy_loss_clip_cov)
from skyrl.train.config.config import AlgorithmConfig

config = AlgorithmConfig(policy_loss_type="clip_cov")
config.clip_cov.clip_ratio = 0.05
torch.manual_seed(1)
rows, width = 16, 64
old = -6 * torch.rand(rows, width)
lp = old + 0.01 * torch.randn(rows, width)
mask = torch.ones(rows, width)
advantages = 2 * torch.randn(rows, 1).expand(rows, width)
cov = (advantages - advantages.mean()) * (lp - lp.mean())
between = ((cov > config.clip_cov.clip_cov_lb) & (cov < config.clip_cov.clip_cov_ub)).float().mean()
show("tokens whose covariance is between the bounds", float(between))
_, whole = compute_policy_loss_clip_cov(lp, old, advantages.clone(), config, mask)
scaled = reduce(advantages, mask, "token_mean", rows, width)
_, got = compute_policy_loss_clip_cov(lp, old, scaled, config, mask)
show("clipped of all tokens, as the trainer calls it", got["clip_ratio"], whole["clip_ratio"])
