# SPDX-License-Identifier: Apache-2.0
"""Liger: the fused linear cross entropy adds up d weight in bf16 unless accum_dtype is given."""
import os

os.environ["TRITON_INTERPRET"] = "1"

import support
import torch
from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
from support import show

torch.manual_seed(1)
T, H, V = 256, 16, 512  # chunks of 8 rows
hidden = torch.randn(T, H).bfloat16()
weight = (torch.randn(V, H) / 8).bfloat16()
labels = torch.randint(8, (T,))
w = weight.double().requires_grad_()
torch.nn.functional.cross_entropy(hidden.double() @ w.t(), labels).backward()
for dtype in (None, torch.float32):
    own = weight.clone().requires_grad_()
    loss = LigerFusedLinearCrossEntropyLoss(accum_dtype=dtype)
    loss(own, hidden.clone().requires_grad_(), labels).backward()
    show(f"accum_dtype={dtype}: relative error of d weight, that of rounding once",
         tuple(float((x.double() - w.grad).norm() / w.grad.norm())
               for x in (own.grad, w.grad.bfloat16())))
