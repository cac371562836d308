# SPDX-License-Identifier: Apache-2.0
"""AReaL: log-probabilities and entropies over a split vocabulary, PPO and DPO."""
from typing import Literal

import lossgrid
import torch
from adapter_kit import dpo, policy_loss
from lossgrid import stubs

lossgrid.packages("areal", "torch")
stubs.install("ray", "datasets", "aiohttp", "pandas", "mistral_common", "peft", "tenacity",
              "flask", "fastapi", "uvicorn", "uvloop", "aiofiles", "openai", "zmq", "requests", "pybase64",
              "setproctitle", "swanlab", "wandb", "tensorboardX", "hydra", "numba", "mbridge", "trackio",
              "cookiecutter", "torchdata", "pebble", "pynvml", "nltk", "PIL", "litellm", "anthropic",
              "qwen_agent", "lark", "werkzeug")
stubs.no_compile()
from areal.utils import functional


@lossgrid.implementation(vocab_split="padded:-1e30")
def areal_logprobs(logits, batch, *, chunk: Literal[1024, 16] = 1024):
    """gather_logprobs."""
    return functional.gather_logprobs(logits, batch.labels, tp_group=batch.tp.group,
                                      chunk_size=chunk)


@lossgrid.implementation(returns=("logprobs", "entropy"), vocab_split="padded:-1e30")
def areal_entropy(logits, batch, *, chunk: Literal[1024, 16] = 1024):
    """gather_logprobs_entropy."""
    return functional.gather_logprobs_entropy(logits, batch.labels, tp_group=batch.tp.group,
                                              chunk_size=chunk)


@lossgrid.implementation(returns="loss", vocab_split="padded:-1e30",
                         supports=policy_loss("ratio_clip_c"))
def areal_ppo(logits, batch):
    """ppo_actor_loss_fn behind gather_logprobs, weighted with the share of the pack in the tokens."""
    options, pack = batch.objective, batch.pack
    logprobs = batch.join_cp(torch.where(batch.predicts, areal_logprobs(logits, batch), 0))
    loss, _ = functional.ppo_actor_loss_fn(
        logprobs, pack.prev_logprobs, pack.prev_logprobs, pack.advantages,
        options["ratio_clip_min"], pack.mask, options["ratio_clip_max"], options["ratio_clip_c"])
    return loss * (pack.mask.sum() / batch.denominators.valid_tokens)


@lossgrid.implementation(returns="loss", vocab_split="padded:-1e30", supports=dpo)
def areal_dpo(logits, batch):
    """dpo_pair_logratios and dpo_preference_loss behind gather_logprobs, as its engine calls them."""
    logprobs = batch.join_cp(torch.where(batch.predicts, areal_logprobs(logits, batch), 0))
    pairs = torch.ones(len(batch.lengths) // 2, dtype=torch.bool)
    policy, reference, _ = functional.dpo_pair_logratios(
        logprobs, batch.pack.reference_policy_logprobs, batch.cu_seqlens_padded.long(),
        batch.tokens.mask, pairs)
    margin = (policy[:, 0] - policy[:, 1]) - (reference[:, 0] - reference[:, 1])
    beta = batch.objective["reference_policy_kl_penalty"]
    return functional.dpo_preference_loss(margin, beta=beta).mean()
