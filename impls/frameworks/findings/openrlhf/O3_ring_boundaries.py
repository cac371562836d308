# SPDX-License-Identifier: Apache-2.0
"""OpenRLHF: GPTLMLoss with ring attention drops a target a rank and averages means of ranks."""
import support
import torch
import torch.distributed as dist
from support import ranks, show


def run(rank):
    support.flash_attn()
    from openrlhf.models.loss import GPTLMLoss
    torch.manual_seed(1)
    logits = torch.randn(1, 16, 50)
    labels = torch.randint(50, (1, 16))
    labels[:, :11] = -100  # a prompt
    for size in (1, 2, 4):
        group = dist.new_group(list(range(size)))
        if rank >= size:
            continue
        part = slice(rank * 16 // size, (rank + 1) * 16 // size)
        loss = GPTLMLoss(group if size > 1 else None)(logits[:, part], labels)
        if rank == 0:
            show(f"ring {size}: loss", float(loss), float(GPTLMLoss()(logits, labels)))


if __name__ == "__main__":
    ranks(4, run)
