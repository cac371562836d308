# SPDX-License-Identifier: Apache-2.0
"""Liger: the fused linear GRPO loss adds up d weight in the dtype of the weight."""
import support
import torch
from liger_kernel.chunked_loss.grpo_loss import LigerFusedLinearGRPOLoss
from support import show

width, H, V = 8, 64, 256
for sequences in (1, 16, 128):
    torch.manual_seed(1)
    hidden = torch.randn(sequences, width, H).bfloat16()
    weight = (torch.randn(V, H) / 8).bfloat16().requires_grad_()
    ids = torch.randint(8, (sequences, width))
    mask, advantages = torch.ones(sequences, width), torch.ones(sequences)
    loss = LigerFusedLinearGRPOLoss(beta=0.0, compiled=False, use_ref_model=False, chunk_size=1)
    loss(hidden, weight, ids, mask, advantages)[0].backward()
    w = weight.detach().double().requires_grad_()
    lp = (hidden.double() @ w.t()).log_softmax(-1).gather(-1, ids[..., None])
    (-lp.sum() / (sequences * width)).backward()
    error = lambda x: float((x.double() - w.grad).norm() / w.grad.norm())  # noqa: E731
    show(f"{sequences} sequences: relative error of d weight, that of rounding once",
         (error(weight.grad), error(w.grad.bfloat16())))
