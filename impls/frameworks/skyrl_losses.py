# SPDX-License-Identifier: Apache-2.0
"""SkyRL: log-probabilities and entropies on Megatron with gathers over CP, its fused LM head, FSDP,
policy losses."""
import typing
from types import SimpleNamespace
from typing import Literal

import lossgrid
import torch
import typing_extensions
from adapter_kit import Rows, by_id, equal_shards, one_rank, policy_loss
from lossgrid import stubs

lossgrid.packages("skyrl", "megatron-core", "torch")
typing.TypedDict = typing_extensions.TypedDict  # pydantic refuses the other one on Python 3.11
stubs.install("ray", "jaxtyping", "loguru", "datasets", "peft", "cloudpathlib", "hf_transfer",
              "skyrl_gym", "omegaconf", "jax", "flax", "wandb", "aiohttp", "fastapi", "sqlmodel")
stubs.no_cuda()
stubs.no_compile()
import megatron_bigram
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region
from skyrl.backends.skyrl_train.distributed.megatron import model_utils
from skyrl.backends.skyrl_train.utils import ppo_utils, torch_utils
from skyrl.backends.skyrl_train.workers.megatron.megatron_model_wrapper import MegatronModelWrapper

megatron = dict(vocab_split="padded:-1e30", megatron=True)


def packed(op, inputs, batch, chunk, **options):
    return op(*inputs, batch.ids_padded[None], batch.cu_seqlens_padded,
              batch.attention_mask.shape[1], batch.vocab_start, batch.vocab_end, batch.tp.group,
              cp_group=batch.cp.group, chunk_size=chunk or None, **options)


@lossgrid.implementation(rows="padded", **megatron)
def skyrl_packed_logprobs(logits, batch, *, chunk: Literal[0, 7] = 0):
    """from_parallel_logits_to_logprobs_packed_sequences."""
    return packed(model_utils.from_parallel_logits_to_logprobs_packed_sequences, [logits[None]],
                  batch, chunk)


@lossgrid.implementation(**megatron)
def skyrl_logprobs(logits, batch):
    """DistributedLogprob."""
    return model_utils.DistributedLogprob.apply(
        logits[None], batch.labels[None], batch.vocab_start, batch.vocab_end, batch.tp.group,
        False)[0]


@lossgrid.implementation(returns=("logprobs", "entropy"), **megatron)
def skyrl_entropy(logits, batch):
    """DistributedLogprob and vocab_parallel_entropy."""
    return skyrl_logprobs(logits, batch), model_utils.vocab_parallel_entropy(logits[None])[0]


def linear_layouts(problem):
    if problem.grid.tp > 1 and not problem.sequence_parallel:
        return "its workers use sequence parallelism with TP"
    return equal_shards(problem)


@lossgrid.implementation(inputs="hidden", rows="padded", megatron=True, supports=linear_layouts,
                         rounds=("logits", "grad_logits", "grad_weight"))
def skyrl_linear(hidden, weight, batch, *, chunk: Literal[64, 7] = 64):
    """from_parallel_hidden_to_logprobs_packed_sequences, its fused LM head."""
    if batch.sequence_parallel:
        hidden = gather_from_sequence_parallel_region(hidden)
    return packed(model_utils.from_parallel_hidden_to_logprobs_packed_sequences,
                  [hidden[None], by_id(weight, batch)], batch, chunk, temperature=batch.temperature)


@lossgrid.implementation(supports=one_rank)
def skyrl_fsdp_logprobs(logits, batch):
    """torch_utils.logprobs_from_logits."""
    return torch_utils.logprobs_from_logits(logits[None], batch.labels[None])[0]


@lossgrid.implementation(returns=("logprobs", "entropy"), supports=one_rank)
def skyrl_fsdp_entropy(logits, batch, *, chunk: Literal[1024, 16] = 1024):
    """torch_utils.logprobs_from_logits and chunked_entropy_from_logits."""
    return (skyrl_fsdp_logprobs(logits, batch), torch_utils.chunked_entropy_from_logits(
        logits[None], requires_grad=True, chunk_size=chunk)[0])


def policy(function, logits, batch):
    """Returns a policy loss behind the packed log-probabilities. Its sum is divided by the tokens of
    the batch: SkyRL scales the advantages before."""
    options, rows = batch.objective, Rows(batch)
    low, high = options["ratio_clip_min"], options["ratio_clip_max"]
    config = SimpleNamespace(
        policy_loss_type="dual_clip" if options["ratio_clip_c"] else "regular", eps_clip_low=low,
        eps_clip_high=high, clip_ratio_c=options["ratio_clip_c"], loss_reduction="sequence_mean",
        cispo=SimpleNamespace(cispo_eps_clip_low=low, cispo_eps_clip_high=high),
        off_policy_correction=SimpleNamespace(
            tis_ratio_type=None, sequence_mask_metric=None, outlier_token_is_threshold_low=None,
            outlier_token_is_threshold_high=None, token_mask_is_threshold_low=None,
            token_mask_is_threshold_high=None))
    mask = rows.mask.float()
    scale = mask / batch.denominators.valid_tokens
    if not options["token_level_loss"]:
        scale = mask / mask.sum(1, keepdim=True).clamp(min=1) / batch.denominators.valid_sequences
    logprobs = skyrl_packed_logprobs(logits, batch)
    return function(logprobs, rows.prev_logprobs, rows.advantages * scale, config, mask)[0]


def policy_of(name, function, *given, **options):
    """Declares a policy loss of ppo_utils."""
    def loss(logits, batch):
        return policy(function, logits, batch)
    loss.__doc__ = f"{function.__name__} behind the packed log-probabilities."
    lossgrid.implementation(loss, name=f"skyrl_{name}", returns="loss",
                            supports=policy_loss(*given, **options), **megatron)


policy_of("ppo", ppo_utils.ppo_policy_loss, "token_level_loss", "ratio_clip_c")
policy_of("gspo", ppo_utils.gspo_policy_loss, "token_level_loss",
          sequence_level_importance_ratios=True)
policy_of("cispo", ppo_utils.compute_policy_loss_cispo, "token_level_loss", use_cispo=True)


@lossgrid.engine(megatron=True, supports=megatron_bigram.supports)
def skyrl_megatron_engine(bigram, batch, evaluate, *, microbatches: Literal[2, 1] = 2):
    """MegatronModelWrapper.forward_backward_mini_batch with cross_entropy: its packing, Megatron's
    schedule, and the mean over DP x CP of Megatron's DDP."""
    config = SimpleNamespace(
        remove_microbatch_padding=True, logprobs_chunk_size=None,
        policy=SimpleNamespace(megatron_config=SimpleNamespace(
            mtp_loss_weight=0, mtp_loss_chunk_size=None, mtp_loss_topk=None)),
        algorithm=SimpleNamespace(policy_loss_type="cross_entropy", use_entropy_loss=False))
    model = megatron_bigram.MegatronBigram(bigram)
    engine = MegatronModelWrapper(config, [model], policy_loss_fn=ppo_utils.cross_entropy_loss)
    model.config.finalize_model_grads_func = None  # reduce_gradient below
    ids, mask = batch.rows_to_padded(batch.ids_padded), batch.attention_mask
    trained = Rows(batch).mask.float() / max(batch.denominators.valid_tokens, 1)
    absent = dict.fromkeys(("old_action_log_probs", "base_action_log_probs", "advantages",
                            "rollout_action_logprobs", "position_ids"))
    parts = megatron_bigram.parts_of(batch, microbatches)
    metrics = engine.forward_backward_mini_batch(
        [dict(absent, sequences=ids[part], attention_mask=mask[part], loss_mask=trained[part],
              num_actions=ids.shape[1] - 1, num_microbatches=len(parts)) for part in parts],
        ids.shape[1], len(ids), forward_only=evaluate)
    megatron_bigram.reduce_gradient(bigram, batch, evaluate, batch.dp.size * batch.cp.size)
    return megatron_bigram.sum_over_dp([one["loss"] for one in metrics], batch)
