# SPDX-License-Identifier: Apache-2.0
"""Wrong: each rank divides by the number of its own valid tokens."""
import os
import sys

import lossgrid
import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from vocab_parallel import VocabParallelLogprob  # noqa: E402


# Options of the objective that are implemented with one value only.
ONLY = {"token_level_loss": True, "ratio_clip_c": None, "disable_ppo_ratio": False,
        "force_on_policy_ratio": False, "use_cispo": False,
        "sequence_level_importance_ratios": False, "reference_policy_kl_type": "k3",
        "use_on_policy_kl_approximation": False, "use_importance_sampling_correction": False,
        "positive_example_nll_weight": 0}


def supports(problem):
    if problem.objective["kind"] != "clipped_pg":
        return "the loss is clipped_pg"
    for name, value in ONLY.items():
        if problem.objective.get(name, value) != value:
            return f"{name}={problem.objective[name]} is not implemented"
    return ""


def clamp(x, bound):
    return x if bound is None else x.clamp(-bound, bound)


@lossgrid.implementation(returns="loss", supports=supports)
def local_denominator(logits, batch):
    """Mean over the valid tokens of the global batch; the loss of the pack on every CP rank."""
    options = batch.objective
    x = VocabParallelLogprob.apply(logits, batch.labels, batch.vocab_start, batch.tp.group)
    keep = batch.mask.nonzero()[:, 0]  # masked rows may hold anything
    x, advantages = x[keep], batch.advantages[keep]
    ratio = torch.exp(x - batch.prev_logprobs[keep])
    clipped = ratio.clamp(1 - options["ratio_clip_min"], 1 + options["ratio_clip_max"])
    loss = torch.max(-advantages * ratio, -advantages * clipped)
    beta = 0 if options["use_kl_in_reward"] else options["reference_policy_kl_penalty"]
    if beta:
        r = batch.reference_policy_logprobs[keep] - x
        bounded = clamp(r, options["kl_input_clamp_value"])
        weight = torch.where(bounded == r, torch.exp(x - x.detach()), torch.ones_like(x))
        kl = weight * (torch.exp(bounded) - 1 - bounded)
        loss = loss + beta * clamp(kl, options["kl_output_clamp_value"])
    own = loss.sum() / (len(keep) + 1e-8)  # WRONG: not that of the global batch
    whole = own.detach().clone()
    dist.all_reduce(whole, group=batch.cp.group)
    return whole + (own - own.detach())  # value of the pack, gradient of the own rows
