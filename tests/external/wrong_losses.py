# SPDX-License-Identifier: Apache-2.0
"""Mistakes that losses of training frameworks have shipped, one function each.

``explained_losses_test.cpp`` holds the explanation that each of them gets; the table stands in
``docs/verification.md``. Every function is right but for the line marked WRONG.
"""
from typing import Callable, Optional

import lossgrid
import torch
import torch.distributed as dist
import torch.nn.functional as F


def only(kind: str, most_tp: int = 1) -> Callable[..., str]:
    """Returns what refuses other objectives, and vocabularies that are split."""
    def supports(problem) -> str:
        if problem.objective["kind"] != kind:
            return f"the loss is {kind}"
        return "the vocabulary is whole" if problem.grid.tp > most_tp else ""
    return supports


def any_loss(problem) -> str:
    return "the vocabulary is whole" if problem.grid.tp > 1 else ""


def logprobs(logits: torch.Tensor, batch, rows: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Returns [T_c], 0 outside of ``rows`` (those that are trained on)."""
    rows = batch.mask if rows is None else rows
    z = torch.where(rows[:, None], logits, torch.zeros(())).float()
    x = z.log_softmax(1).gather(1, batch.labels[:, None])[:, 0]
    return torch.where(rows, x, torch.zeros(()))


def added_up(own: torch.Tensor, batch) -> torch.Tensor:
    """Returns the sum over CP ranks, with the gradient of the own part."""
    whole = own.detach().clone()
    dist.all_reduce(whole, group=batch.cp.group)
    return whole + (own - own.detach())


def with_gradient_of(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Returns ``value`` with the gradient of ``other``."""
    return value.detach() + (other - other.detach())


class Times(torch.autograd.Function):
    """Leaves numbers as they are and multiplies their gradient."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


# Divisors

@lossgrid.implementation(returns="loss", supports=only("nll"))
def mean_of_all_rows(logits, batch):
    own = -logprobs(logits, batch).sum() / (len(logits) * batch.cp.size)  # WRONG: valid ones
    return added_up(own, batch)


@lossgrid.implementation(returns="nll", supports=any_loss)
def gradient_over_rows(logits, batch):
    z = Times.apply(torch.where(batch.predicts[:, None], logits, torch.zeros(())).float(),
                    1 / len(logits))  # WRONG: the caller takes the mean
    return -z.log_softmax(1).gather(1, batch.labels[:, None])[:, 0]


@lossgrid.implementation(returns="loss", supports=only("nll"))
def backward_of_sum(logits, batch):
    total = -logprobs(logits, batch).sum()
    n = max(batch.denominators.valid_tokens, 1)
    return with_gradient_of(added_up(total / n, batch), total)  # WRONG: divided for the log alone


@lossgrid.implementation(returns="loss", supports=only("nll"))
def divided_by_cp_twice(logits, batch):
    own = -logprobs(logits, batch).sum() / max(batch.denominators.valid_tokens, 1)
    return added_up(own, batch) / batch.cp.size ** 2  # WRONG: the mean over CP, twice


@lossgrid.implementation(returns="loss", supports=only("nll"))
def mean_of_sequence_means(logits, batch):
    x, total = logprobs(logits, batch), torch.zeros(())
    sequences = len(batch.lengths)
    for i in range(sequences):
        rows = batch.mask & (batch.sequence == i)
        if rows.any():
            total = total - x[rows].mean() / sequences  # WRONG: all tokens weigh the same
    return total


def own_mean(loss: torch.Tensor, batch) -> torch.Tensor:
    """Returns the mean over the tokens of the microbatch, divided by their number."""
    count = batch.mask.sum().float()
    dist.all_reduce(count, group=batch.cp.group)
    return added_up(loss / count.clamp(min=1) / batch.microbatches, batch)


@lossgrid.implementation(returns="loss", supports=only("nll"))
def mean_of_microbatch_means(logits, batch):
    return own_mean(-logprobs(logits, batch).sum(), batch)  # WRONG: they have unequal counts


@lossgrid.implementation(returns="loss", takes="values", supports=only("value"))
def value_of_own_tokens(values, batch):
    error = torch.where(batch.mask, values[:, 0].float() - batch.returns, torch.zeros(()))
    count = batch.mask.sum().float()
    dist.all_reduce(count, group=batch.cp.group)
    own = batch.objective["scale"] * (error ** 2).sum() / 2
    return added_up(own / count.clamp(min=1), batch)  # WRONG: the count of the batch


def orpo(logits, batch):
    """Returns means of log-probabilities and lengths by sequence [B], and the loss of the odds."""
    x = logprobs(logits, batch)
    sequences = len(batch.lengths)
    n = torch.zeros(sequences).index_add(0, batch.sequence, batch.mask.float()).clamp(min=1)
    mean = torch.zeros(sequences).index_add(0, batch.sequence, x) / n
    odds = mean - torch.log1p(-mean.exp())
    return mean, n, -batch.objective["beta"] * F.logsigmoid(odds[0::2] - odds[1::2]).mean()


@lossgrid.implementation(returns="loss", supports=only("orpo"))
def length_divides_twice(logits, batch):
    mean, n, preference = orpo(logits, batch)
    return preference - (mean[0::2] / n[0::2]).mean()  # WRONG: a mean already


@lossgrid.implementation(returns="loss", supports=only("orpo"))
def mean_over_chosen_tokens(logits, batch):
    """The SFT loss of TRL and Liger, another definition than a mean over the pairs."""
    mean, n, preference = orpo(logits, batch)
    return preference - (mean * n)[0::2].sum() / n[0::2].sum()


# Rows

@lossgrid.implementation(returns="loss", supports=only("nll"))
def masked_rows_in_sum(logits, batch):
    own = -logprobs(logits, batch, batch.predicts).sum()  # WRONG: all positions
    return added_up(own / max(batch.denominators.valid_tokens, 1), batch)


@lossgrid.implementation(returns="loss", supports=only("nll"))
def id_0_is_padding(logits, batch):
    rows = batch.mask & (batch.labels != 0)  # WRONG: 0 is an id as others are
    own = -logprobs(logits, batch, rows).sum()
    return added_up(own / max(batch.denominators.valid_tokens, 1), batch)


@lossgrid.implementation(returns="loss", supports=only("nll"))
def labels_not_shifted(logits, batch):
    z = torch.where(batch.mask[:, None], logits, torch.zeros(())).float()
    ids = batch.split_cp(batch.ids_padded)  # WRONG: those of the next tokens
    x = z.log_softmax(1).gather(1, ids[:, None])[:, 0]
    own = -x[batch.mask].sum() / max(batch.denominators.valid_tokens, 1)
    return added_up(own, batch)


@lossgrid.implementation(returns="loss", supports=only("nll"), takes="layouts")
def empty_rank_divides_by_0(logits, batch):
    count = batch.mask.sum()
    mean = -logprobs(logits, batch).sum() / count  # WRONG: a rank may have none
    return added_up(mean * count / max(batch.denominators.valid_tokens, 1), batch)


@lossgrid.implementation(returns="loss", supports=only("nll"))
def loss_of_first_rank(logits, batch):
    own = -logprobs(logits, batch).sum() / max(batch.denominators.valid_tokens, 1)
    value = own.detach().clone()
    # WRONG: an all-reduce is due
    dist.broadcast(value, src=dist.get_global_rank(batch.cp.group, 0), group=batch.cp.group)
    return with_gradient_of(value, own)


# Gradients

@lossgrid.implementation(returns="loss", supports=only("nll"))
def gradient_of_chunk_means(logits, batch):
    x, n = -logprobs(logits, batch), max(batch.denominators.valid_tokens, 1)
    parts = [part[part != 0].mean() for part in x.split(5) if (part != 0).any()]
    mean = torch.stack(parts).mean() if parts else 0 * x.sum()
    return with_gradient_of(added_up(x.sum() / n, batch), mean)  # WRONG: chunks are unequal


@lossgrid.implementation(inputs="hidden", returns="nll", autograd="own", supports=any_loss)
def first_upstream_for_all(hidden, weight, batch):
    by_id = batch.weight_layout == "vocab_hidden"
    w = (weight if by_id else weight.t()).float()
    h = torch.where(batch.predicts[:, None], hidden, torch.zeros(())).float()
    x = (h @ w.t()).log_softmax(1)
    dz = x.exp()
    dz[torch.arange(len(h)), batch.labels] -= 1

    def backward(g):
        dh, dw = (dz @ w) * g[0], (dz.t() @ h) * g[0]  # WRONG: every row has its own
        return dh, dw if by_id else dw.t()
    return -x.gather(1, batch.labels[:, None])[:, 0], backward


@lossgrid.implementation(inputs="hidden", returns="loss", autograd="own", supports=only("nll"))
def hidden_without_upstream(hidden, weight, batch):
    by_id = batch.weight_layout == "vocab_hidden"
    w = (weight if by_id else weight.t()).float()
    h = torch.where(batch.mask[:, None], hidden, torch.zeros(())).float()
    x = (h @ w.t()).log_softmax(1)
    dz = x.exp()
    dz[torch.arange(len(h)), batch.labels] -= 1
    dz = dz * batch.mask[:, None]
    n = max(batch.denominators.valid_tokens, 1)
    whole = -(x.gather(1, batch.labels[:, None])[:, 0] * batch.mask).sum() / n
    dist.all_reduce(whole, group=batch.cp.group)

    def backward(g):
        dh, dw = dz @ w, (dz.t() @ h) * (g / n)  # WRONG: d hidden lacks g / n
        return dh, dw if by_id else dw.t()
    return whole, backward


def policy(logits, batch, kl_of: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Returns the clipped policy gradient with k3, whose log-probabilities kl_of(x) are."""
    o, keep = batch.objective, batch.mask
    x = logprobs(logits, batch)[keep]
    ratio = torch.exp(x - batch.prev_logprobs[keep])
    clipped = ratio.clamp(1 - o["ratio_clip_min"], 1 + o["ratio_clip_max"])
    a = batch.advantages[keep]
    r = batch.reference_policy_logprobs[keep] - kl_of(x)
    kl = torch.exp(r) - 1 - r
    loss = torch.max(-a * ratio, -a * clipped) + o["reference_policy_kl_penalty"] * kl
    return added_up(loss.sum() / max(batch.denominators.valid_tokens, 1), batch)


@lossgrid.implementation(returns="loss", supports=only("clipped_pg"))
def kl_gradient_of_value(logits, batch):
    return policy(logits, batch, lambda x: x)  # WRONG: the case states the score's gradient


@lossgrid.implementation(returns="loss", supports=only("clipped_pg"))
def kl_detached(logits, batch):
    return policy(logits, batch, torch.Tensor.detach)  # WRONG: the KL term has a gradient


# Transforms

@lossgrid.implementation(returns="nll", takes="transforms", supports=any_loss)
def without_logit_scale(logits, batch):
    z = torch.where(batch.predicts[:, None], logits, torch.zeros(())).float()  # WRONG: no scale
    if batch.logit_softcap:
        z = batch.logit_softcap * torch.tanh(z / batch.logit_softcap)
    return -(z / batch.temperature).log_softmax(1).gather(1, batch.labels[:, None])[:, 0]


@lossgrid.implementation(returns="loss", takes="transforms", supports=only("nll"))
def without_softcap(logits, batch):
    x = logprobs(logits * batch.logit_scale / batch.temperature, batch)  # WRONG: no cap
    return added_up(-x.sum() / max(batch.denominators.valid_tokens, 1), batch)


@lossgrid.implementation(returns="loss", takes="transforms", supports=only("nll"))
def without_temperature(logits, batch):
    x = logprobs(logits, batch)  # WRONG: logits are divided by it
    return added_up(-x.sum() / max(batch.denominators.valid_tokens, 1), batch)


def divergence(logits, batch) -> torch.Tensor:
    """Returns the sum over the own rows of KL(teacher || student)."""
    keep = batch.mask.nonzero()[:, 0]
    p = (logits[keep].float() / batch.temperature).log_softmax(1)
    q = (batch.teacher_logits[keep].float() / batch.temperature).log_softmax(1)
    return (q.exp() * (q - p)).sum()


@lossgrid.implementation(returns="loss", takes=("teacher", "transforms"),
                         supports=only("distill"))
def times_temperature_squared(logits, batch):
    n = max(batch.denominators.valid_tokens, 1)
    own = divergence(logits, batch) * batch.temperature ** 2 / n  # WRONG: the case states no T^2
    return added_up(own, batch)


@lossgrid.implementation(returns="loss", takes=("teacher", "transforms"),
                         supports=only("distill"))
def teacher_at_temperature_1(logits, batch):
    keep = batch.mask.nonzero()[:, 0]
    p = (logits[keep].float() / batch.temperature).log_softmax(1)
    q = batch.teacher_logits[keep].float().log_softmax(1)  # WRONG: both are divided
    own = (q.exp() * (q - p)).sum() / max(batch.denominators.valid_tokens, 1)
    return added_up(own, batch)


# Returned entropies

def entropies(logits: torch.Tensor, batch) -> torch.Tensor:
    """Returns [T_c], 0 outside of the rows that predict."""
    logp = torch.where(batch.predicts[:, None], logits, torch.zeros(())).float().log_softmax(1)
    return torch.where(batch.predicts, -(logp.exp() * logp).sum(1), torch.zeros(()))


@lossgrid.implementation(returns=("logprobs", "entropy"), supports=only("nll"))
def entropy_of_last_rows_lost(logits, batch):
    entropy = entropies(logits, batch)
    if batch.cp.rank == batch.cp.size - 1 and len(entropy) > 1:
        entropy = torch.cat([entropy[:-2], torch.zeros(2)])  # WRONG: one is shifted out
    return logprobs(logits, batch, batch.predicts), entropy


class VocabSum(torch.autograd.Function):
    """The sum over TP, whose gradient every rank has alike."""

    @staticmethod
    def forward(ctx, own, group):
        whole = own.clone()
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


@lossgrid.implementation(vocab_split="equal", returns=("logprobs", "entropy"),
                         supports=only("nll", 8))
def entropy_of_own_shard(logits, batch):
    z = torch.where(batch.predicts[:, None], logits, torch.zeros(())).float()
    top = z.detach().amax(1)
    dist.all_reduce(top, op=dist.ReduceOp.MAX, group=batch.tp.group)
    z = z - top[:, None]
    lse = VocabSum.apply(z.exp().sum(1), batch.tp.group).log()
    column = batch.labels - batch.vocab_start
    own = (column >= 0) & (column < z.shape[1])
    picked = z.gather(1, column.clamp(0, z.shape[1] - 1)[:, None])[:, 0]
    target = VocabSum.apply(torch.where(own, picked, torch.zeros(())), batch.tp.group)
    logp = z - lse[:, None]
    entropy = -(logp.exp() * logp).sum(1)  # WRONG: no sum over TP
    return target - lse, entropy


# Padding

@lossgrid.implementation(vocab_split="padded:-inf", returns="loss", supports=only("nll", 8))
def padding_columns_make_nan(logits, batch):
    z = torch.where(batch.mask[:, None], logits, torch.zeros(())).float()
    top = z.detach().amax(1)
    dist.all_reduce(top, op=dist.ReduceOp.MAX, group=batch.tp.group)
    z = z - top[:, None]
    column = batch.labels - batch.vocab_start
    own = (column >= 0) & (column < z.shape[1])
    one_hot = F.one_hot(column.clamp(0, z.shape[1] - 1), z.shape[1]) * own[:, None]
    sums = torch.stack([z.exp().sum(1), (one_hot * z).sum(1)])  # WRONG: 0 * -inf
    whole = sums.detach().clone()
    dist.all_reduce(whole, group=batch.tp.group)
    sums = whole + (sums - sums.detach())
    nll = torch.where(batch.mask, sums[0].log() - sums[1], torch.zeros(()))
    return added_up(nll.sum() / max(batch.denominators.valid_tokens, 1), batch)
