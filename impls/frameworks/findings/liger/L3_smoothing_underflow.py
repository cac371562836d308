# SPDX-License-Identifier: Apache-2.0
"""Liger: the smoothed loss of the vocabulary-parallel function is infinite for peaked rows."""
import os

os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the processor

import support
import torch
import torch.distributed as dist
import torch.nn.functional as F
from support import ranks, show

V = 16


def run(rank):
    from liger_kernel.ops.vocab_parallel_cross_entropy import LigerVocabParallelCEFunction as Liger
    for mode in ("global", "partition"):
        for gap in (1.0, 100.0, 110.0):
            torch.manual_seed(1)
            logits = torch.randn(1, 2, V)
            logits[..., 3] += gap
            labels = torch.tensor([[3, 5]])
            part = logits[..., rank * V // 2:(rank + 1) * V // 2].clone().requires_grad_()
            loss = Liger.apply(part, labels, dist.group.WORLD, -100, 0.1, "pytorch", mode)
            grad, = torch.autograd.grad(loss.sum(), part)
            rows = grad.sum(-1)
            dist.all_reduce(rows)
            want = F.cross_entropy(logits[0], labels[0], label_smoothing=0.1, reduction="none")
            print(f"{mode}, one logit {gap} above: rank {rank} loss {loss[0].tolist()} "
                  f"(right: {want.tolist()}), sum of gradient rows {rows[0].tolist()}", flush=True)
            dist.barrier()


if __name__ == "__main__":
    ranks(2, run)
