# SPDX-License-Identifier: Apache-2.0
"""Liger: LUSPO by tokens averages over padding."""
import support
import torch
from liger_kernel.chunked_loss.grpo_loss import LigerFusedLinearGRPOFunction as Liger
from support import gradient, show

lengths = torch.tensor([3, 5])
for width in (5, 10, 40):
    for level, beta in (("sequence", 0.0), ("sequence", 0.04), ("token", 0.0)):
        torch.manual_seed(1)
        mask = (torch.arange(width) < lengths[:, None]).float()
        lp = torch.zeros(2, width)
        lp[:, :5] = -torch.rand(2, 5)
        lp[:, 5:] = -9.0  # of padding tokens, whatever the model makes of them
        lp.requires_grad_()
        old = lp.detach() - 0.05
        loss, _ = Liger.ppo_loss_fn(
            lp, mask, torch.tensor([1.0, -0.5]), mask, ref_per_token_logps=old - 0.3,
            old_per_token_logps=old, beta=beta, loss_type="luspo", importance_sampling_level=level)
        g = gradient(loss, lp)
        show(f"width {width}, ratio by {level}, beta {beta}: loss, gradient of tokens, of padding",
             tuple(f"{float(x):.5g}" for x in (loss, (g * mask).norm(), (g * (1 - mask)).norm())))
