# SPDX-License-Identifier: Apache-2.0
"""OpenRLHF: LogExpLoss overflows, and ignores the margin."""
import support
import torch
support.flash_attn()
from openrlhf.models.loss import LogExpLoss, PairWiseLoss
from support import gradient, show

for gap in (80.0, 89.0, 200.0):
    chosen = torch.tensor([0.0], requires_grad=True)
    loss = LogExpLoss()(chosen, torch.tensor([gap]))
    right = PairWiseLoss()(chosen, torch.tensor([gap]))
    show(f"rejected is better by {gap}: loss, gradient",
         (float(loss), float(gradient(loss, chosen))),
         (float(right), float(gradient(right, chosen))))
one, two = torch.tensor([1.0]), torch.tensor([0.0])
show("margin 5", float(LogExpLoss()(one, two, torch.tensor([5.0]))),
     float(PairWiseLoss()(one, two, torch.tensor([5.0]))))
