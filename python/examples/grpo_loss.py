# SPDX-License-Identifier: Apache-2.0
"""A whole loss: GRPO with a clipped ratio and the k3 estimate of the KL divergence."""
import lossgrid
import torch
import torch.distributed as dist
from vocab_parallel import VocabParallelLogprob

# Options of the objective that are implemented; others have to be left at their defaults, those
# too that later versions of lossgrid bring.
IMPLEMENTED = ("ratio_clip_min", "ratio_clip_max", "reference_policy_kl_penalty",
               "use_kl_in_reward", "kl_input_clamp_value", "kl_output_clamp_value")


def supports(problem):
    if problem.objective["kind"] != "clipped_pg":
        return "the loss is clipped_pg"
    others = [name for name in problem.objective_changed if name not in IMPLEMENTED]
    return f"{others[0]}={problem.objective[others[0]]} is not implemented" if others else ""


def clamp(x, bound):
    return x if bound is None else x.clamp(-bound, bound)


@lossgrid.implementation(returns="loss", supports=supports)
def grpo_loss(logits, batch):
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
    own = loss.sum() / (batch.denominators.valid_tokens + 1e-8)
    whole = own.detach().clone()
    dist.all_reduce(whole, group=batch.cp.group)
    return whole + (own - own.detach())  # value of the pack, gradient of the own rows
