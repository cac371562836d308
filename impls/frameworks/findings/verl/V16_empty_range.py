# SPDX-License-Identifier: Apache-2.0
"""verl: distillation fails on a microbatch without response tokens."""
import support
import torch
from support import show
from verl.trainer.distillation.losses import compute_distillation_loss_range

try:
    compute_distillation_loss_range(torch.rand(2, 4), torch.zeros(2, 4))
except (RuntimeError, IndexError) as error:
    show("no valid token", f"{type(error).__name__}: {str(error)[:100]}", "no range")
