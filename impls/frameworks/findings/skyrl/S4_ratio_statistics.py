# SPDX-License-Identifier: Apache-2.0
"""SkyRL: statistics of the importance ratio count masked tokens as zeros."""
import support
import torch
from support import show
from skyrl.backends.skyrl_train.utils.off_policy_correction_utils import (
    compute_off_policy_correction)
from skyrl.train.config.config import OffPolicyCorrectionConfig

config = OffPolicyCorrectionConfig(tis_ratio_type="sequence")
torch.manual_seed(1)
mask = (torch.arange(64) < torch.tensor([4, 8, 64, 0])[:, None]).float()
old = -torch.rand(4, 64)
rollout = old + 0.1 * torch.randn(4, 64)
_, metrics, _ = compute_off_policy_correction(old, rollout, mask, config)
ratio = (old - rollout).exp()[mask > 0]
show("is_ratio_min", metrics["is_ratio_min"], float(ratio.min()))
show("is_ratio_std", metrics["is_ratio_std"], float(ratio.std()))
show("is_ratio_mean", metrics["is_ratio_mean"], float(ratio.mean()))
rollout = old - mask  # the ratio of every sequence is e to the number of its tokens
_, metrics, _ = compute_off_policy_correction(old, rollout, mask, config)
show("three sequences are capped, the fourth is empty: tis_seq_clip_high_ratio",
     metrics["tis_seq_clip_high_ratio"], 1.0)
