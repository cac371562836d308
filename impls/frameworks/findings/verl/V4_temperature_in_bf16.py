# SPDX-License-Identifier: Apache-2.0
"""verl: the temperature is rounded to the dtype of the logits, and so is the quotient."""
import support
import torch
from support import show
from verl.workers.engine.fsdp.transformer_impl import _scale_logits_by_temperature as scale

torch.manual_seed(1)
logits = (4 * torch.randn(512, 4096)).bfloat16()
labels = torch.randint(4096, (512, 1))
for temperature in (1.0, 0.7, 0.6, 0.5):
    t = torch.full((512, 1), temperature)
    got = scale(logits, t, is_unit_temperature=False)
    lp = got.double().log_softmax(1).gather(1, labels)
    want = (logits.double() / temperature).log_softmax(1).gather(1, labels)
    both = (logits.float() / t).double().log_softmax(1).gather(1, labels)
    show(f"temperature {temperature} is {float(t[0].to(torch.bfloat16))}: mean error of log-probs, "
         "largest; in float32 largest", tuple(f"{float(x):.3g}" for x in (
             (lp - want).mean(), (lp - want).abs().max(), (both - want).abs().max())))
