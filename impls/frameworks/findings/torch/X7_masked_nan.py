# SPDX-License-Identifier: Apache-2.0
"""verl and SkyRL: NaN in a masked token, by the way a loss is aggregated."""
import support
import torch
from skyrl.backends.skyrl_train.utils.ppo_utils import reduce_loss
from support import show
from verl.trainer.ppo.core_algos import agg_loss

loss = torch.tensor([[1.0, float("nan")], [1.0, 1.0]])
mask = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
show("SkyRL reduce_loss", float(reduce_loss(loss, mask)), 3.0)
for mode, want in (("token-mean", 1.0), ("token-sum", 3.0), ("seq-mean-token-sum", 1.5),
                   ("seq-mean-token-sum-norm", 0.75), ("seq-mean-token-mean", 1.0)):
    show(f"verl {mode}", float(agg_loss(loss, mask, mode)), want)
