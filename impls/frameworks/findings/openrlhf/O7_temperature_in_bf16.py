# SPDX-License-Identifier: Apache-2.0
"""OpenRLHF: logits are divided by the temperature in place, in their dtype."""
import support
import torch

support.flash_attn()
from openrlhf.models.utils import log_probs_from_logits
from support import show

torch.manual_seed(1)
logits = (4 * torch.randn(64, 4096)).bfloat16()
labels = torch.randint(4096, (64,))
for temperature in (1.0, 0.7):
    want = (logits.double() / temperature).log_softmax(1).gather(1, labels[:, None])[:, 0]
    for dtype in (torch.bfloat16, torch.float32):
        given = logits.to(dtype)[None].clone()
        got = log_probs_from_logits(given, labels[None], temperature)[0].double()
        show(f"temperature {temperature}, {dtype}: largest error, input is overwritten",
             (float((got - want).abs().max()), bool((given[0] != logits.to(dtype)).any())))
