# SPDX-License-Identifier: Apache-2.0
"""verl: entropies of bf16 logits, with and without autocast, by chunk and at once."""
import support
import torch
from support import show
from verl.utils.torch_functional import entropy_from_logits, entropy_from_logits_with_chunking

torch.manual_seed(1)
for offset in (0.0, 16.0, 32.0):
    logits = (2 * torch.randn(256, 8192) + offset).bfloat16()
    z = logits.double()
    want = torch.logsumexp(z, 1) - (z.softmax(1) * z).sum(1)
    with torch.autocast("cpu", torch.bfloat16):
        cast = entropy_from_logits(logits)
    for name, got in (("bf16", entropy_from_logits(logits)), ("autocast", cast),
                      ("chunked", entropy_from_logits_with_chunking(logits, 64)),
                      ("float32", entropy_from_logits(logits.float()))):
        show(f"mean of logits {offset}, {name} ({got.dtype}): largest error in nats",
             float((got.double() - want).abs().max()))
