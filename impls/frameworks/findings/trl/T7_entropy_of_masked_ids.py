# SPDX-License-Identifier: Apache-2.0
"""TRL: entropy of the fused language-model head is NaN with ids that a bias of -inf takes out.

The torch code and the Triton kernels (in Triton's interpreter).
"""
import os

os.environ["TRITON_INTERPRET"] = "1"

import support
import torch
from support import gradient, show
from trl.kernels import chunked_logprob

torch.manual_seed(1)
hidden = torch.randn(6, 8)
weight = torch.randn(96, 8, requires_grad=True)
targets = torch.randint(90, (6,))
for masked in (-1e30, -float("inf")):
    bias = torch.zeros(96)
    bias[90:] = masked
    logits = (hidden @ weight.t() + bias).double()
    p = logits.softmax(1)
    right = -torch.xlogy(p, p).sum(1)
    for triton in (False, True):
        chunked_logprob._use_triton = lambda device: triton
        lp, entropy, *_ = chunked_logprob.ChunkedLogProbFunction.apply(
            hidden, weight, bias, targets, 1.0, 32, None, 1.0, ("entropy",))
        name = f"bias {masked}, {'Triton' if triton else 'torch'}"
        want = logits.log_softmax(1).gather(1, targets[:, None])[:, 0]
        show(f"{name}: largest error of a log-probability", float((lp - want).abs().max()), 0.0)
        show("   entropy", entropy.mean().item(), right.mean().item())
        show("   rows of d weight that are NaN, log-probabilities alone",
             int(gradient(lp.sum(), weight).isnan().any(1).sum()), 0)
        lp, entropy, *_ = chunked_logprob.ChunkedLogProbFunction.apply(
            hidden, weight, bias, targets, 1.0, 32, None, 1.0, ("entropy",))
        show("   and with an entropy bonus",
             int(gradient((lp + 0.01 * entropy).sum(), weight).isnan().any(1).sum()), 0)
