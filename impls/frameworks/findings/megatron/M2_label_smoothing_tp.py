# SPDX-License-Identifier: Apache-2.0
"""Megatron-core: label smoothing with a split vocabulary, and with peaked rows."""
import support
import torch
import torch.distributed as dist
from support import ranks, show

V, ALPHA = 16, 0.1


def run(rank):
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import vocab_parallel_cross_entropy
    for tp in (1, 2, 4):
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp)
        own = parallel_state.get_tensor_model_parallel_rank()
        for std in (2.0, 60.0):
            torch.manual_seed(1)
            logits, labels = std * torch.randn(1, 4, V), torch.randint(V, (1, 4))
            part = logits[..., own * V // tp:(own + 1) * V // tp].clone().requires_grad_()
            loss = vocab_parallel_cross_entropy(part * 1, labels, ALPHA)
            grad, = torch.autograd.grad(loss.sum(), part)
            rows = grad.sum(-1)
            dist.all_reduce(rows, group=parallel_state.get_tensor_model_parallel_group())
            losses = [torch.empty_like(loss) for _ in range(4)]
            dist.all_gather(losses, loss.detach())
            z = logits.double().log_softmax(-1)
            smoothing = ALPHA * V / (V - 1)
            target = z.gather(-1, labels[..., None])[..., 0]
            want = -(1 - smoothing) * target - smoothing * z.mean(-1)
            if rank == 0:
                show(f"tp {tp}, logits of std {std}: mean loss by TP rank, sum of a gradient row",
                     ([round(float(x.mean()), 4) for x in losses[:tp]],
                      round(float(rows[0, 0]), 4)),
                     (round(float(want.mean()), 4), 0.0))
        parallel_state.destroy_model_parallel()


if __name__ == "__main__":
    ranks(4, run)
