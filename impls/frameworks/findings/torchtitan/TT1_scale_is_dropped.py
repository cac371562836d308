# SPDX-License-Identifier: Apache-2.0
"""torchtitan: the backward of the chunked loss ignores what the loss is multiplied by."""
import support
import torch
from support import gradient, show
from torchtitan.components.loss import _DecoderOutputGradientBackProp as Bridge

hidden = torch.randn(2, 3, requires_grad=True)
made = torch.ones(2, 3)  # gradients of the chunks
for factor in (1.0, 0.25, 0.0):
    loss = Bridge.apply(hidden, made, torch.tensor(2.0))
    show(f"loss * {factor}: gradient", float(gradient(loss * factor, hidden)[0, 0]), factor)
