# SPDX-License-Identifier: Apache-2.0
"""verl: top-k distillation by chunks keeps float32 logits for its backward without a copy.

A cross entropy whose kernel writes its gradient over the logits, as flash-attn's does
(inplace_backward), runs before. flash-attn needs a GPU: one line stands in for its kernel.
"""
import support
import torch
from support import gradient, show
from verl.trainer.distillation.fsdp.losses import _chunked_topk_log_probs

torch.manual_seed(1)
leaf = torch.randn(1, 8, 32, requires_grad=True)
ids = torch.randint(32, (1, 8, 4))
for dtype in (torch.bfloat16, torch.float32):
    results = []
    for overwritten in (False, True):
        logits = (leaf * 1).to(dtype)
        loss = _chunked_topk_log_probs(logits, ids).float().sum()
        if overwritten:
            logits.data.fill_(0.01)  # a kernel's write, which autograd does not see
        results.append(gradient(loss, leaf))
    show(f"{dtype}: norm of the gradient's change where logits are overwritten, of the gradient",
         (float((results[1] - results[0]).norm()), float(results[0].norm())))
