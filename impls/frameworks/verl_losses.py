# SPDX-License-Identifier: Apache-2.0
"""verl: log-probabilities and entropies on FSDP and Megatron, its fused linear layer, policy losses."""
from typing import Literal

import lossgrid
import torch
from adapter_kit import Rows, by_id, first, one_rank, policy_loss, transforms
from lossgrid import stubs

lossgrid.packages("verl", "megatron-core", "torch")
stubs.install("ray", "codetiming", "datasets", "pandas", "peft", "wandb", "torchdata", "PIL")
stubs.no_compile()
from verl.trainer.ppo import core_algos
from verl.utils import torch_functional
from verl.utils.experimental.torch_functional import FusedLinearForPPO
from verl.utils.megatron import tensor_parallel
from verl.workers.config import ActorConfig
from verl.workers.engine.fsdp.transformer_impl import _scale_logits_by_temperature

HUGE = 1e30  # a dual clip that never applies


@lossgrid.implementation(supports=one_rank)
def verl_logprobs(logits, batch):
    """logprobs_from_logits, of FSDP."""
    return torch_functional.logprobs_from_logits(logits[None], batch.labels[None])[0]


@lossgrid.implementation(takes="transforms", supports=first(one_rank, transforms("temperature")))
def verl_logprobs_temperature(logits, batch):
    """_scale_logits_by_temperature of the FSDP engine and logprobs_from_logits."""
    by_row = torch.full((len(logits), 1), batch.temperature)
    divided = _scale_logits_by_temperature(logits, by_row, is_unit_temperature=False)
    return torch_functional.logprobs_from_logits(divided[None], batch.labels[None])[0]


@lossgrid.implementation(supports=one_rank)
def verl_logprobs_naive(logits, batch):
    """logprobs_from_logits_naive."""
    return torch_functional.logprobs_from_logits_naive(logits, batch.labels)


@lossgrid.implementation(returns=("logprobs", "entropy"), supports=one_rank)
def verl_entropy(logits, batch):
    """logprobs_from_logits and entropy_from_logits, of FSDP."""
    return (torch_functional.logprobs_from_logits(logits[None], batch.labels[None])[0],
            torch_functional.entropy_from_logits(logits))


@lossgrid.implementation(returns=("logprobs", "entropy"), supports=one_rank)
def verl_entropy_chunked(logits, batch, *, chunk: Literal[2048, 16] = 2048):
    """logprobs_from_logits and entropy_from_logits_with_chunking, of FSDP."""
    return (torch_functional.logprobs_from_logits(logits[None], batch.labels[None])[0],
            torch_functional.entropy_from_logits_with_chunking(logits, chunk))


@lossgrid.implementation(autograd="nonleaf", overwrites="logits", vocab_split="padded:-1e30",
                         megatron=True)
def verl_megatron_logprobs(logits, batch):
    """vocab_parallel_log_probs_from_logits."""
    return tensor_parallel.vocab_parallel_log_probs_from_logits(logits[None], batch.labels[None])[0]


@lossgrid.implementation(returns=("logprobs", "entropy"), autograd="nonleaf", overwrites="logits",
                         vocab_split="padded:-1e30", megatron=True)
def verl_megatron_entropy(logits, batch):
    """vocab_parallel_entropy of a copy, as its logits processor does, and the log-probabilities."""
    entropy = tensor_parallel.vocab_parallel_entropy(logits[None].clone())[0]
    return verl_megatron_logprobs(logits, batch), entropy


@lossgrid.implementation(returns=("logprobs", "entropy"), autograd="nonleaf", overwrites="logits",
                         vocab_split="padded:-1e30", megatron=True)
def verl_megatron_entropy_chunked(logits, batch, *, chunk: Literal[2048, 16] = 2048):
    """vocab_parallel_entropy_with_chunking of a copy, and the log-probabilities."""
    entropy = tensor_parallel.vocab_parallel_entropy_with_chunking(logits[None].clone(), chunk)[0]
    return verl_megatron_logprobs(logits, batch), entropy


@lossgrid.implementation(inputs="hidden", returns=("logprobs", "entropy"), supports=one_rank,
                         rounds=("logits", "grad_logits", "grad_weight"))
def verl_linear(hidden, weight, batch, *, chunk: Literal[512, 16] = 512):
    """FusedLinearForPPO."""
    logprobs, entropy = FusedLinearForPPO(chunk)(hidden[None], by_id(weight, batch),
                                                 batch.labels[None], batch.temperature)
    return logprobs[0], entropy[0]


def policy(name, logits, batch):
    """Returns a registered policy loss of the log-probabilities of Megatron."""
    options, rows = batch.objective, Rows(batch)
    config = ActorConfig(
        strategy="megatron", rollout_n=1, ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=options["ratio_clip_min"], clip_ratio_high=options["ratio_clip_max"],
        clip_ratio_c=options["ratio_clip_c"] or HUGE)
    config.global_batch_info.update(dp_size=1, batch_num_tokens=batch.denominators.valid_tokens,
                                    global_batch_size=batch.denominators.valid_sequences)
    mode = "token-mean" if options["token_level_loss"] else "seq-mean-token-mean"
    return core_algos.get_policy_loss_fn(name)(
        rows.prev_logprobs, rows.join(verl_megatron_logprobs(logits, batch)), rows.advantages,
        rows.mask, mode, config)[0]


def policy_of(name, *given, **options):
    """Declares a policy loss by its name in verl's registry."""
    def loss(logits, batch):
        return policy(name, logits, batch)
    loss.__doc__ = f"The policy loss {name!r} behind vocab_parallel_log_probs_from_logits."
    lossgrid.implementation(
        loss, name=f"verl_{name}", returns="loss", autograd="nonleaf", overwrites="logits",
        vocab_split="padded:-1e30", megatron=True, supports=policy_loss(*given, **options))


policy_of("vanilla", "ratio_clip_c", "token_level_loss")
policy_of("gspo", "token_level_loss", sequence_level_importance_ratios=True)
policy_of("cispo", "token_level_loss", use_cispo=True)
