# SPDX-License-Identifier: Apache-2.0
"""The bigram model of an engine as Megatron's schedule takes a model, and what DDP does after it."""
import torch
import torch.distributed as dist
from adapter_kit import equal_shards, first, nll
from megatron.core.enums import ModelType
from megatron.core.transformer import TransformerConfig


def _no_temperature(problem):
    return "" if problem.temperature == 1 else "its model has no temperature"


supports = first(nll, equal_shards, _no_temperature)


class MegatronBigram(torch.nn.Module):
    """A stand-in of a GPTModel in DistributedDataParallel; its logits follow from the id of a row."""

    model_type = ModelType.encoder_or_decoder

    def __init__(self, bigram):
        super().__init__()
        self.bigram = bigram
        self.config = TransformerConfig(num_layers=1, hidden_size=1, num_attention_heads=1)

    def set_input_tensor(self, tensors):
        pass

    def forward(self, input_ids, *_, **__):
        return self.bigram(input_ids)


def parts_of(batch, microbatches):
    """Returns the sequences of every microbatch as slices of the batch."""
    count = len(batch.lengths)
    size = -(-count // microbatches)
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]


def reduce_gradient(bigram, batch, evaluate, divisor):
    """Adds the gradient up over DP x CP and divides it, as DDP does."""
    if evaluate:
        return
    for axis in (batch.cp, batch.dp):
        dist.all_reduce(bigram.weight.grad, group=axis.group)
    bigram.weight.grad /= divisor


def sum_over_dp(losses, batch):
    """Returns the sum of losses of this rank over DP."""
    total = torch.tensor(float(sum(losses)))
    dist.all_reduce(total, group=batch.dp.group)
    return total
