# SPDX-License-Identifier: Apache-2.0
"""SkyRL: the top-k of draft training is taken by TP shard, so tp changes loss and gradient."""
import support
import torch
import torch.distributed as dist
from support import ranks, show

V, K = 64, 4


def run(rank):
    from skyrl.backends.skyrl_train.mtp.soft_ce import draft_soft_ce_topk
    torch.manual_seed(1)
    student, teacher = torch.randn(1, 32, V), 3 * torch.randn(1, 32, V)
    for tp in (1, 2, 4):
        group = dist.new_group(list(range(tp)))
        if rank >= tp:
            continue
        part = slice(rank * V // tp, (rank + 1) * V // tp)
        s = student[..., part].clone().requires_grad_()
        loss = draft_soft_ce_topk(s, teacher[..., part], torch.ones(1, 32), K,
                                  vocab_parallel_group=group if tp > 1 else None)
        g, = torch.autograd.grad(loss, s)
        squares = (g * g).sum()
        dist.all_reduce(squares, group=group)
        if rank == 0:
            show(f"tp {tp}: loss, norm of the gradient", (float(loss), float(squares.sqrt())))


if __name__ == "__main__":
    ranks(4, run)
