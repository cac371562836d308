# SPDX-License-Identifier: Apache-2.0
"""TRL: log-probabilities, entropies, GRPO, GSPO and DPO of its trainers."""
from collections import defaultdict
from types import SimpleNamespace
from typing import Literal

import lossgrid
import torch
from adapter_kit import (Rows, beta_of, by_id, distill, dpo, first, k3_without_clamps, one_cp_rank,
                         one_rank, policy_loss, transforms)
from lossgrid import stubs

lossgrid.packages("trl", "torch")
stubs.install("datasets", "pandas", "pyarrow")
from trl.experimental.gkd import GKDTrainer
from trl.kernels.chunked_logprob import ChunkedLogProbFunction
from trl.trainer import utils
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer


@lossgrid.implementation(supports=one_rank)
def trl_logprobs(logits, batch):
    """selective_log_softmax."""
    return utils.selective_log_softmax(logits[None], batch.labels[None])[0]


@lossgrid.implementation(supports=one_rank)
def trl_logprobs_padded(logits, batch):
    """selective_log_softmax of a row mask."""
    return utils.selective_log_softmax(logits[None], batch.labels[None],
                                       row_mask=batch.predicts[None])[0]


@lossgrid.implementation(returns=("logprobs", "entropy"), supports=one_rank)
def trl_entropy(logits, batch):
    """selective_log_softmax_and_entropy."""
    logprobs, entropy = utils.selective_log_softmax_and_entropy(logits[None], batch.labels[None])
    return logprobs[0], entropy[0]


@lossgrid.implementation(inputs="hidden", returns=("logprobs", "entropy"), takes="transforms",
                         supports=one_rank, rounds=("logits", "grad_logits", "grad_weight"))
def trl_linear(hidden, weight, batch, *, chunk: Literal[64, 16] = 64):
    """ChunkedLogProbFunction, its fused LM head by chunks of the vocabulary."""
    return ChunkedLogProbFunction.apply(
        hidden, by_id(weight, batch), None, batch.labels, batch.temperature, chunk,
        batch.logit_softcap or None, batch.logit_scale, ("entropy",))[:2]


def trainer(batch, **options):
    """Returns a stand-in of a trainer, on which its own _compute_loss is called."""
    same = lambda x, **_: x  # noqa: E731
    return SimpleNamespace(
        accelerator=SimpleNamespace(num_processes=batch.dp.size, device="cpu", gather=same,
                                    reduce=same, gather_for_metrics=same, sync_gradients=False),
        model=SimpleNamespace(training=True), _metrics={"train": defaultdict(list)},
        aux_loss_enabled=False, **options)


def grpo(logits, batch, loss_type, level):
    """Returns GRPOTrainer._compute_loss of log-probabilities, and of entropies for a bonus."""
    options, rows = batch.objective, Rows(batch)
    logprobs, entropy = (rows.join(x) for x in trl_entropy(logits, batch))
    self = trainer(
        batch, _get_per_token_logps_and_entropies=lambda *_, **__: (logprobs, entropy, None),
        loss_type=loss_type, importance_sampling_level=level, top_entropy_quantile=1.0,
        off_policy_mask_threshold=None, use_vllm=False,
        current_gradient_accumulation_steps=batch.microbatches,
        beta=options["reference_policy_kl_penalty"], epsilon_low=options["ratio_clip_min"],
        epsilon_high=options["ratio_clip_max"], use_adaptive_entropy=False,
        _entropy_bonus_enabled=options["entropy_coefficient"] != 0,
        entropy_coef=options["entropy_coefficient"],
        args=SimpleNamespace(delta=options["ratio_clip_c"], use_bias_correction_kl=False,
                             steps_per_generation=batch.microbatches))
    mask = rows.mask.long()
    reference = rows.reference_policy_logprobs if self.beta else None
    return GRPOTrainer._compute_loss(self, None, {
        "prompt_ids": mask[:, :0], "prompt_mask": mask[:, :0], "completion_ids": mask,
        "completion_mask": mask, "advantages": rows.advantages,
        "old_per_token_logps": rows.prev_logprobs,
        "ref_per_token_logps": reference,
        "num_items_in_batch": torch.tensor(float(batch.denominators.valid_tokens))})


def own_sequences(problem):
    if problem.microbatches * problem.grid.dp > 1:
        return "it has the mean over its own sequences"
    return ""


@lossgrid.implementation(returns="loss", takes="terms", scale="dp", supports=first(
    one_rank, policy_loss("ratio_clip_c", "reference_policy_kl_penalty", "entropy_coefficient"),
    k3_without_clamps))
def trl_dapo(logits, batch):
    """GRPOTrainer._compute_loss with loss_type="dapo", its default."""
    return grpo(logits, batch, "dapo", "token")


@lossgrid.implementation(returns="loss", supports=first(
    one_rank, own_sequences, policy_loss("ratio_clip_c", token_level_loss=False)))
def trl_grpo(logits, batch):
    """GRPOTrainer._compute_loss with loss_type="grpo", the mean of means of sequences."""
    return grpo(logits, batch, "grpo", "token")


@lossgrid.implementation(returns="loss", supports=first(
    one_rank, own_sequences, policy_loss(sequence_level_importance_ratios=True,
                                         token_level_loss=False)))
def trl_gspo(logits, batch):
    """GRPOTrainer._compute_loss with importance_sampling_level="sequence"."""
    return grpo(logits, batch, "grpo", "sequence")


@lossgrid.implementation(returns="loss", supports=first(one_rank, dpo))
def trl_dpo(logits, batch):
    """DPOTrainer._compute_loss of sums of log-probabilities, chosen before rejected."""
    rows = Rows(batch)
    order = lambda x: torch.cat([x[::2], x[1::2]])  # noqa: E731
    logprobs = order(rows.join(trl_logprobs(logits, batch)) * rows.mask)
    before = (rows.reference_policy_logprobs * rows.mask).sum(1)
    self = trainer(
        batch, ld_alpha=None, precompute_ref_logps=True, loss_types=["sigmoid"], loss_weights=[1.0],
        f_divergence_type="reverse_kl", beta=batch.objective["reference_policy_kl_penalty"],
        use_weighting=False, _total_train_tokens=0, _tp_size=1)
    zeros = torch.zeros_like(logprobs)
    outputs = SimpleNamespace(log_probs=logprobs, entropy=zeros, mean_logits=zeros,
                              is_top1=zeros.bool())
    mask = torch.nn.functional.pad(order(rows.mask).long(), (1, 0))
    return DPOTrainer._compute_loss(self, lambda **_: outputs, {
        "input_ids": mask, "attention_mask": mask, "completion_mask": mask,
        "ref_chosen_logps": before[::2], "ref_rejected_logps": before[1::2]}, False)


@lossgrid.implementation(returns="loss", takes=("transforms", "teacher"), supports=first(
    one_rank, one_cp_rank, distill, transforms("temperature")))
def trl_gkd(logits, batch):
    """GKDTrainer.generalized_jsd_loss."""
    return GKDTrainer.generalized_jsd_loss(
        logits[None], batch.teacher_logits[None], labels=batch.labels_ignore[None],
        beta=beta_of(batch), temperature=batch.temperature,
        num_items_in_batch=max(batch.denominators.valid_tokens, 1))
