# SPDX-License-Identifier: Apache-2.0
"""Megatron-core: cross entropy over a split vocabulary, plain, fused, and behind its linear layer."""
import lossgrid
from adapter_kit import by_id, equal_shards
from lossgrid import stubs

lossgrid.packages("megatron-core", "torch")
stubs.no_compile()
stubs.no_cuda()
from megatron.core import parallel_state, tensor_parallel
from megatron.core.fusions.fused_cross_entropy import fused_vocab_parallel_cross_entropy
from megatron.core.tensor_parallel.layers import linear_with_grad_accumulation_and_async_allreduce


@lossgrid.implementation(returns="nll", autograd="nonleaf", overwrites="logits",
                         vocab_split="padded:-1e30", megatron=True)
def mcore_cross_entropy(logits, batch):
    """tensor_parallel.vocab_parallel_cross_entropy, which works in the memory of float32 logits."""
    return tensor_parallel.vocab_parallel_cross_entropy(
        logits[:, None], batch.labels[:, None])[:, 0]


@lossgrid.implementation(returns="nll", autograd="nonleaf", overwrites="logits",
                         vocab_split="padded:-1e30", megatron=True)
def mcore_fused_cross_entropy(logits, batch):
    """fusions.fused_cross_entropy.fused_vocab_parallel_cross_entropy."""
    return fused_vocab_parallel_cross_entropy(
        logits[:, None], batch.labels[:, None], batch.tp.group)[:, 0]


@lossgrid.implementation(inputs="hidden", returns="nll", megatron=True, supports=equal_shards,
                         rounds=("logits", "grad_logits", "grad_weight"))
def mcore_linear_cross_entropy(hidden, weight, batch):
    """The product of its output layer, then vocab_parallel_cross_entropy in float32."""
    logits = linear_with_grad_accumulation_and_async_allreduce(
        hidden[:, None], by_id(weight, batch), None, gradient_accumulation_fusion=False,
        allreduce_dgrad=batch.tp.size > 1 and not batch.sequence_parallel,
        sequence_parallel=batch.sequence_parallel,
        tp_group=parallel_state.get_tensor_model_parallel_group())
    return tensor_parallel.vocab_parallel_cross_entropy(
        logits.float() / batch.temperature, batch.labels[:, None])[:, 0]
