# SPDX-License-Identifier: Apache-2.0
"""Liger: Triton kernels of cross entropies, in Triton's interpreter where there is no GPU."""
import os
from typing import Literal

import lossgrid
import torch
from adapter_kit import (Rows, beta_of, by_id, distill, dpo, equal_shards, first, k3_without_clamps,
                         nll, one_cp_rank, one_rank, policy_loss, terms, transforms)
from lossgrid import stubs

lossgrid.packages("liger-kernel", "triton", "torch")
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
stubs.no_compile()
from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss
from liger_kernel.chunked_loss.dpo_loss import LigerFusedLinearDPOFunction
from liger_kernel.chunked_loss.grpo_loss import LigerFusedLinearGRPOFunction
from liger_kernel.transformers import functional
from liger_kernel.transformers.vocab_parallel_cross_entropy import LigerVocabParallelCrossEntropy


def interpreted(problem):
    if problem.dtype == "bfloat16" and "TRITON_INTERPRET" in os.environ:
        return "bfloat16 in Triton's interpreter is not judged"
    if problem.logit_softcap and "TRITON_INTERPRET" in os.environ:
        return "Triton's interpreter has no tanh of its own libdevice"
    return ""


own_tokens = first(interpreted, one_rank, nll, one_cp_rank,
                   terms("label_smoothing", "z_loss_coefficient"))
grpo = first(policy_loss("ratio_clip_c", "reference_policy_kl_penalty"), k3_without_clamps)


def options_of(batch):
    return {"label_smoothing": batch.objective["label_smoothing"],
            "lse_square_scale": batch.objective["z_loss_coefficient"],
            "softcap": batch.logit_softcap or None}


@lossgrid.implementation(returns="loss", autograd="nonleaf", overwrites="logits",
                         takes=("terms", "transforms"),
                         supports=first(own_tokens, transforms("logit_softcap")))
def liger_cross_entropy(logits, batch):
    """liger_cross_entropy, summed; its forward leaves the gradient in the memory of the logits."""
    total = functional.liger_cross_entropy(logits, batch.labels_ignore, reduction="sum",
                                           **options_of(batch))
    return total / batch.denominators.valid_tokens


@lossgrid.implementation(returns="nll", vocab_split="padded:-1e30", autograd="nonleaf",
                         overwrites="logits", supports=interpreted)
def liger_vocab_parallel(logits, batch):
    """LigerVocabParallelCrossEntropy by token."""
    return LigerVocabParallelCrossEntropy()(logits[:, None], batch.labels[:, None],
                                            batch.tp.group)[:, 0]


@lossgrid.implementation(returns="loss", autograd="nonleaf", overwrites="logits", takes="terms",
                         vocab_split="equal", supports=first(
                             interpreted, equal_shards, nll, one_cp_rank, terms("label_smoothing")))
def liger_vocab_parallel_smoothed(logits, batch, *,
                                  mode: Literal["global", "partition"] = "global"):
    """LigerVocabParallelCrossEntropy with label_smoothing; "partition" is what its Megatron class
    has by default."""
    function = LigerVocabParallelCrossEntropy(
        label_smoothing=batch.objective["label_smoothing"], label_smoothing_mode=mode)
    losses = function(logits[:, None], batch.labels_ignore[:, None], batch.tp.group)
    return losses.sum() / batch.denominators.valid_tokens


@lossgrid.implementation(inputs="hidden", returns="loss", takes=("terms", "transforms"),
                         supports=first(own_tokens, transforms("logit_softcap", "temperature")),
                         rounds=("logits", "grad_logits", "grad_weight"))
def liger_linear(hidden, weight, batch):
    """liger_fused_linear_cross_entropy, summed."""
    total = functional.liger_fused_linear_cross_entropy(
        hidden / batch.temperature, by_id(weight, batch), batch.labels_ignore, reduction="sum",
        **options_of(batch))
    return total / batch.denominators.valid_tokens


def logprobs_of(logits, batch):
    return Rows(batch).join(-liger_vocab_parallel(logits, batch))


def reference_of(options, read):
    """Returns log-probabilities of the reference policy where the loss has a KL term."""
    return read() if options["reference_policy_kl_penalty"] else None


def grpo_of(options, **more):
    """Returns the options of a GRPO loss; its divisor is the mean over processes."""
    return dict(beta=options["reference_policy_kl_penalty"], epsilon_low=options["ratio_clip_min"],
                epsilon_high=options["ratio_clip_max"], delta=options["ratio_clip_c"], **more)


@lossgrid.implementation(returns="loss", vocab_split="padded:-1e30", autograd="nonleaf",
                         overwrites="logits", supports=first(interpreted, grpo))
def liger_grpo(logits, batch):
    """ppo_loss_fn of LigerFusedLinearGRPOFunction, a row a token: its advantages are by row."""
    rows = Rows(batch)
    column = lambda table: table.reshape(-1, 1)  # noqa: E731
    mask = column(rows.mask).float()
    return LigerFusedLinearGRPOFunction.ppo_loss_fn(
        column(logprobs_of(logits, batch)), mask, rows.advantages.reshape(-1), mask,
        reference_of(batch.objective, lambda: column(rows.reference_policy_logprobs)),
        column(rows.prev_logprobs),
        num_items_in_batch=batch.denominators.valid_tokens * batch.world.size,
        **grpo_of(batch.objective))[0]


@lossgrid.implementation(inputs="hidden", returns="loss",
                         rounds=("logits", "grad_logits", "grad_weight"),
                         supports=first(one_rank, one_cp_rank, grpo))
def liger_linear_grpo(hidden, weight, batch, *, chunk: Literal[16, 1] = 16):
    """LigerFusedLinearGRPOLoss, a row a token."""
    loss = LigerFusedLinearGRPOLoss(**grpo_of(
        batch.objective, compiled=False, use_ref_model=False, chunk_size=chunk,
        temperature=batch.temperature))
    column = lambda rows: rows[:, None].contiguous()  # noqa: E731
    return loss(column(hidden), by_id(weight, batch), column(batch.labels),
                column(batch.mask).float(), batch.advantages,
                ref_per_token_logps=reference_of(
                    batch.objective, lambda: column(batch.reference_policy_logprobs)),
                old_per_token_logps=column(batch.prev_logprobs),
                num_items_in_batch=batch.denominators.valid_tokens * batch.world.size)[0]


@lossgrid.implementation(returns="loss", vocab_split="padded:-1e30", autograd="nonleaf",
                         overwrites="logits", supports=first(interpreted, dpo))
def liger_dpo(logits, batch):
    """preference_loss_fn of LigerFusedLinearDPOFunction on sums of log-probabilities."""
    rows = Rows(batch)
    now = (logprobs_of(logits, batch) * rows.mask).sum(1)
    before = (rows.reference_policy_logprobs * rows.mask).sum(1)
    return LigerFusedLinearDPOFunction.preference_loss_fn(
        now[::2], now[1::2], now, before[::2], before[1::2],
        beta=batch.objective["reference_policy_kl_penalty"])[0]


@lossgrid.implementation(returns="loss", takes="teacher",
                         supports=first(interpreted, one_rank, one_cp_rank, distill))
def liger_jsd(logits, batch):
    """liger_jsd of log-probabilities; it divides by the trained tokens of the own rows."""
    total = functional.liger_jsd(torch.log_softmax(logits, -1),
                                 torch.log_softmax(batch.teacher_logits, -1),
                                 shift_labels=batch.labels_ignore, beta=beta_of(batch))
    return total * batch.mask.sum() / max(batch.denominators.valid_tokens, 1)
