# SPDX-License-Identifier: Apache-2.0
"""verl: d hidden is added up in its dtype over parts of the vocabulary (python -O)."""
import os

os.environ["TRITON_INTERPRET"] = "1"

import support
import torch
import V3_hidden_gradient
from support import show
from verl.utils.kernel import linear_cross_entropy as module

V3_hidden_gradient.prepare()
T, H = 16, 128
for parts in (1, 3):
    vocab = 9504 * parts
    torch.manual_seed(1)
    hidden, weight = torch.randn(T, H).half(), (torch.randn(vocab, H) / 8).half()
    labels = torch.randint(vocab, (T,))
    h = hidden.clone().requires_grad_()
    module.linear_cross_entropy(h, weight, labels, 1.0, "none", None)[0].sum().backward()
    p = (hidden.double() @ weight.double().t()).softmax(1)
    want = weight.double()[labels] - p @ weight.double()
    show(f"{parts} parts of the vocabulary: relative error of d hidden, that of rounding once",
         tuple(float((x.double() - want).norm() / want.norm())
               for x in (h.grad, want.half())))
