# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL: the NLL of positive examples weighs once for each call that has one of them."""
import support
import torch
import torch.distributed as dist
from support import gradient, nemo_rl, ranks, show

B, S, V = 4, 9, 16


def run(rank):
    nemo_rl()
    from nemo_rl.algorithms import loss as losses
    from nemo_rl.algorithms.loss.utils import prepare_packed_loss_input
    from nemo_rl.distributed.batched_data_dict import BatchedDataDict
    torch.manual_seed(1)
    logits = torch.randn(B, S, V)
    data = BatchedDataDict(
        input_ids=torch.randint(V, (B, S)), token_mask=torch.ones(B, S), sample_mask=torch.ones(B),
        rewards=torch.ones(B), advantages=torch.zeros(B, S), prev_logprobs=torch.zeros(B, S),
        generation_logprobs=torch.zeros(B, S))  # no advantage: the term is all of the loss
    function = losses.ClippedPGLossFn(losses.ClippedPGLossConfig(
        reference_policy_kl_penalty=0, positive_example_nll_weight=1.0))
    counts = torch.tensor(float(B)), torch.tensor(float(B * (S - 1)))
    wrappers = (("fused", losses.SequencePackingFusionLossWrapper, prepare_packed_loss_input),
                ("by sequence", losses.SequencePackingLossWrapper, losses.prepare_loss_input))
    for name, wrapper, prepare in wrappers:
        for microbatches in (1, 2, 4):
            total = norm = 0.0
            for i in range(microbatches):
                size = B // microbatches
                own = slice(i * size, (i + 1) * size)
                x = logits[own].reshape(1, -1, V).requires_grad_()
                cu = torch.arange(0, size * S + 1, S)
                loss, _ = wrapper(function, prepare, cu, cu, 0, dist.group.WORLD)(
                    x, data.slice(own.start, own.stop), *counts)
                total, norm = total + float(loss), norm + gradient(loss, x).square().sum()
            if (name, microbatches) == ("fused", 1):
                right = total, float(norm.sqrt())
            show(f"{name}, {microbatches} microbatches: loss, norm of the gradient",
                 (round(total, 4), round(float(norm.sqrt()), 4)), tuple(round(x, 4) for x in right))


if __name__ == "__main__":
    ranks(1, run)
