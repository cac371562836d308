# SPDX-License-Identifier: Apache-2.0
"""verl: rejection by k1 keeps ratios in [1/upper, 1/lower] instead of [lower, upper]."""
import support
import torch
from support import show
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_rejection_mask

ratio = torch.tensor([[0.55, 0.65, 0.75, 1.0, 1.35, 1.5, 1.7]])
for mode in ("token_k1", "seq_mean_k1", "seq_sum_k1"):
    kept = []
    for value in ratio[0]:
        mask, _ = compute_rollout_rejection_mask(
            value.log().reshape(1, 1), torch.ones(1, 1), mode, "0.6_1.4")
        kept.append(int(mask))
    show(f"{mode} with bounds 0.6_1.4, ratios {[round(float(x), 2) for x in ratio[0]]}", kept,
         [0, 1, 1, 1, 1, 0, 0])
