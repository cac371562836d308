# SPDX-License-Identifier: Apache-2.0
"""Functions that differ in who makes gradients and in what they write to."""
import lossgrid
import torch


def _picked(logits, batch):
    return torch.log_softmax(logits, 1).gather(1, batch.labels[:, None])[:, 0]


class _InPlace(torch.autograd.Function):
    """Writes the softmax over the logits, and the gradient over the softmax."""

    @staticmethod
    def forward(ctx, logits, labels):
        logits -= logits.amax(1, keepdim=True)
        picked = logits.gather(1, labels[:, None])[:, 0]
        total = logits.exp_().sum(1)
        logits /= total[:, None]
        ctx.p, ctx.labels = logits.detach(), labels
        return picked - total.log()

    @staticmethod
    def backward(ctx, g):
        dz = ctx.p.neg_().mul_(g[:, None])
        dz[torch.arange(len(g)), ctx.labels] += g
        return dz, None


@lossgrid.implementation(overwrites="logits")
def in_place(logits, batch):
    return _InPlace.apply(logits, batch.labels)


@lossgrid.implementation
def in_place_undeclared(logits, batch):
    return _InPlace.apply(logits, batch.labels)


@lossgrid.implementation(autograd="nonleaf", overwrites=("logits",))
def scaled_in_place(logits, batch):
    return _picked(logits.mul_(2).div_(2), batch)


@lossgrid.implementation
def scaled_leaf(logits, batch):
    return _picked(logits.mul_(2).div_(2), batch)


@lossgrid.implementation
def overwrites_labels(logits, batch):
    labels = batch.labels.clone()
    lp = torch.log_softmax(logits, 1).gather(1, labels[:, None])[:, 0]
    batch.labels.fill_(0)
    batch.tokens.ids.fill_(1)
    return lp


@lossgrid.implementation(autograd="own")
def own(logits, batch):
    assert not logits.requires_grad
    p = torch.softmax(logits, 1)

    def backward(upstream):
        dz = -p * upstream[:, None]
        dz[torch.arange(len(p)), batch.labels] += upstream
        return dz

    return _picked(logits, batch), backward


@lossgrid.implementation(autograd="own", returns=("logprobs", "entropy"))
def own_pair(logits, batch):
    lp = torch.log_softmax(logits, 1)
    h = -(lp.exp() * lp).sum(1)

    def backward(g_lp, g_h):
        dz = -lp.exp() * (g_lp[:, None] + g_h[:, None] * (lp + h[:, None]))
        dz[torch.arange(len(lp)), batch.labels] += g_lp
        return (dz,)

    return {"logprobs": _picked(logits, batch), "entropy": h}, backward


@lossgrid.implementation(autograd="own")
def own_without_backward(logits, batch):
    return _picked(logits, batch)


@lossgrid.implementation(autograd="own")
def own_wrong_shape(logits, batch):
    return _picked(logits, batch), lambda upstream: upstream


@lossgrid.implementation(vocab_split="equal")
def equal_split(logits, batch):
    return _columns(logits, batch, float("-inf"))


@lossgrid.implementation(vocab_split="padded:-1e30")
def padded_split(logits, batch):
    return _columns(logits, batch, -1e30)


def _columns(logits, batch, fill):
    """Whole log-probabilities; columns of padding have to hold ``fill``."""
    width = -(-batch.vocab_size // batch.tp.size)
    assert logits.shape[1] == width == batch.vocab_end - batch.vocab_start, logits.shape
    first = batch.vocab_size - batch.vocab_start
    assert (logits[:, max(first, 0):] == torch.tensor(fill, dtype=logits.dtype)).all()
    parts = [torch.empty_like(logits) for _ in range(batch.tp.size)]
    torch.distributed.all_gather(parts, logits.detach(), group=batch.tp.group)
    parts[batch.tp.rank] = logits
    return _picked(torch.cat(parts, 1), batch)


@lossgrid.implementation(inputs="hidden")
def from_hidden(hidden, weight, batch):
    return _picked(hidden @ weight.t(), batch)
