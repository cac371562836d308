# SPDX-License-Identifier: Apache-2.0
"""OpenRLHF: the KL term has no gradient where its estimator is clamped."""
import support
import torch
support.flash_attn()
from openrlhf.models.utils import compute_approx_kl
from support import gradient, show

for kind in ("k1", "k2", "k3"):
    lp = torch.tensor([1.0, 4.0, 5.0, 11.0], requires_grad=True)
    value = compute_approx_kl(lp, torch.zeros(4), kl_estimator=kind)
    free = {"k1": torch.ones(4), "k2": lp.detach(), "k3": 1 - (-lp.detach()).exp()}[kind]
    show(f"{kind}: gradient of tokens 1, 4, 5 and 11 nats above the reference",
         gradient(value.sum(), lp).tolist(), [round(x, 4) for x in free.tolist()])
lp = torch.tensor([5.0, 11.0], requires_grad=True)
value = compute_approx_kl(lp, torch.zeros(2), lp.detach(), "k2", unbiased_gradient=True)
show("k2 with unbiased_gradient: 5 and 11 nats", gradient(value.sum(), lp).tolist(), [5.0, 11.0])
