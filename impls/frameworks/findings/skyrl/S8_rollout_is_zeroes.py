# SPDX-License-Identifier: Apache-2.0
"""SkyRL: rollout_is takes the gradient from tokens out of range, which its comment denies.

A microbatch without tokens has NaN as its mean ratio.
"""
import support
import torch
from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config.config import AlgorithmConfig
from support import gradient, show

config = AlgorithmConfig(policy_loss_type="rollout_is")
old = torch.zeros(1, 3)
ones = torch.ones(1, 3)
for name, function in (("rollout_is", ppo_utils.rollout_is_policy_loss),
                       ("cispo", ppo_utils.compute_policy_loss_cispo)):
    lp = torch.tensor([[0.0, 2.0, -2.0]], requires_grad=True)
    config.cispo.cispo_eps_clip_low = config.eps_clip_low
    config.cispo.cispo_eps_clip_high = config.eps_clip_high
    loss, _ = function(lp, old, ones, config, ones, rollout_logprobs=old)
    show(f"{name}: gradient of tokens with ratios 1, {2.718281828 ** 2:.3g}, "
         f"{2.718281828 ** -2:.3g}", gradient(loss, lp)[0].tolist())
lp = torch.zeros(1, 3, requires_grad=True)
loss, metrics = ppo_utils.importance_sampling_loss(lp, old, ones, config, 0 * ones)
show("importance_sampling without tokens: loss", float(loss), 0.0)
show("   importance_ratio", metrics["importance_ratio"], "not NaN")
show("   gradient", gradient(loss, lp)[0].tolist(), [0.0, 0.0, 0.0])
