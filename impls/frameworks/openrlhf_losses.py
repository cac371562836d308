# SPDX-License-Identifier: Apache-2.0
"""OpenRLHF: log-probabilities, entropies, SFT, PPO, GSPO and DPO."""
import lossgrid
from adapter_kit import Rows, dpo, first, one_rank, policy_loss, transforms
from lossgrid import stubs

lossgrid.packages("openrlhf", "torch")
stubs.install("ray", "datasets", "peft", "flash_attn", "deepspeed", "pylatexenc", "loralib",
              "optimum", "bitsandbytes", "torchdata", "wandb")
stubs.no_compile()
from openrlhf.models import loss as losses
from openrlhf.models import utils


@lossgrid.implementation(supports=one_rank)
def openrlhf_logprobs(logits, batch):
    """log_probs_from_logits."""
    return utils.log_probs_from_logits(logits[None], batch.labels[None])[0]


@lossgrid.implementation(takes="transforms", autograd="nonleaf", overwrites="logits",
                         supports=first(one_rank, transforms("temperature")))
def openrlhf_logprobs_temperature(logits, batch):
    """log_probs_from_logits with its temperature, which divides the logits in place."""
    return utils.log_probs_from_logits(logits[None], batch.labels[None], batch.temperature)[0]


@lossgrid.implementation(returns=("logprobs", "entropy"), supports=one_rank)
def openrlhf_entropy(logits, batch):
    """log_probs_from_logits and compute_entropy."""
    return openrlhf_logprobs(logits, batch), utils.compute_entropy(logits)


@lossgrid.implementation(returns="loss", supports=first(
    one_rank, lambda p: "" if p.objective["kind"] == "nll" else "it is SFT"))
def openrlhf_sft(logits, batch):
    """SFTLoss behind log_probs_from_logits."""
    rows = Rows(batch)
    return losses.SFTLoss(batch.objective["token_level_loss"])(
        rows.join(openrlhf_logprobs(logits, batch)), rows.mask.float(),
        batch_num_tokens=batch.denominators.valid_tokens,
        global_batch_size=batch.denominators.valid_sequences)


def policy(kind, logits, batch):
    options, rows = batch.objective, Rows(batch)
    loss = losses.PolicyLoss(options["ratio_clip_min"], options["ratio_clip_max"],
                             options["ratio_clip_c"], options["token_level_loss"], kind)
    return loss(rows.join(openrlhf_logprobs(logits, batch)), rows.prev_logprobs, rows.advantages,
                rows.mask.float(), batch_num_tokens=batch.denominators.valid_tokens,
                global_batch_size=batch.denominators.valid_sequences)[0]


@lossgrid.implementation(returns="loss", supports=first(
    one_rank, policy_loss("ratio_clip_c", "token_level_loss")))
def openrlhf_ppo(logits, batch):
    """PolicyLoss behind log_probs_from_logits."""
    return policy("ppo", logits, batch)


@lossgrid.implementation(returns="loss", supports=first(one_rank, policy_loss(
    sequence_level_importance_ratios=True, token_level_loss=False)))
def openrlhf_gspo(logits, batch):
    """PolicyLoss(policy_loss_type="gspo")."""
    return policy("gspo", logits, batch)


@lossgrid.implementation(returns="loss", supports=first(one_rank, dpo))
def openrlhf_dpo(logits, batch):
    """DPOLoss of sums of log-probabilities."""
    rows = Rows(batch)
    now = (rows.join(openrlhf_logprobs(logits, batch)) * rows.mask).sum(1)
    before = (rows.reference_policy_logprobs * rows.mask).sum(1)
    loss = losses.DPOLoss(batch.objective["reference_policy_kl_penalty"])
    return loss(now[::2], now[1::2], before[::2], before[1::2])[0]
