# SPDX-License-Identifier: Apache-2.0
"""Twins of the peers that are wrong in one way, chosen by --impl NAME:wrong=WAY."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../python/peers"))
import lossgrid
import torch
from mean_over_targets import IGNORED, unsupported
from torch_cross_entropy import mean, mean_of_hidden


def last_id(g, name, _):
    if name == "logits":
        g[:, -1] = 0
    elif name == "weight":
        g[-1] = 0
    return g


def ignored_row(g, name, labels):
    if name != "weight":
        g[(labels == IGNORED).nonzero()[0, 0]] = 1e-30
    return g


def divided_by_all(g, name, labels):
    return g * ((labels != IGNORED).double().mean().item())


EDITS = {
    "nothing": lambda g, name, labels: g,
    "loss": lambda g, name, labels: g,
    "zero": lambda g, name, labels: torch.zeros_like(g),
    "not_finite": lambda g, name, labels: g / 0,
    "last_id": last_id,
    "ignored_row": ignored_row,
    "scale": lambda g, name, labels: (g.double() * 1.004).to(g.dtype),
    "denominator": divided_by_all,
}


def edited(wrong, loss, labels, **inputs):
    """Returns the loss, with a hook that changes the gradients of inputs."""
    for name, one in inputs.items():
        if one.requires_grad:
            one.register_hook(lambda g, name=name: EDITS[wrong](g.clone(), name, labels))
    return loss + 0.01 * loss.detach() if wrong == "loss" else loss


@lossgrid.implementation(returns="loss", supports=unsupported)
def of_logits(logits, batch, *, wrong="nothing"):
    labels = batch.labels_ignore
    return edited(wrong, mean(logits, labels), labels, logits=logits)


@lossgrid.implementation(returns="loss", supports=unsupported)
def truncates(logits, batch):
    """Keeps the upper half of a float32 gradient, where bfloat16 would be rounded to nearest."""
    wide = logits.float()
    if wide.requires_grad:
        wide.register_hook(lambda g: (g.view(torch.int32) & -65536).view(torch.float32))
    return mean(wide, batch.labels_ignore)


@lossgrid.implementation(inputs="hidden", returns="loss", supports=unsupported,
                         rounds=("logits", "grad_logits", "grad_weight"))
def of_hidden(hidden, weight, batch, *, wrong="nothing"):
    labels = batch.labels_ignore
    return edited(wrong, mean_of_hidden(hidden, weight, labels), labels, hidden=hidden,
                  weight=weight)


@lossgrid.implementation(inputs="hidden", returns="loss", supports=unsupported)
def declares_nothing(hidden, weight, batch):
    return mean_of_hidden(hidden, weight, batch.labels_ignore)


@lossgrid.implementation(inputs="hidden", returns="loss", supports=unsupported,
                         rounds=("grad_logits", "grad_weight"))
def declares_no_logits(hidden, weight, batch):
    return mean_of_hidden(hidden, weight, batch.labels_ignore)


def rounds_the_loss(hidden, weight, batch):
    return mean_of_hidden(hidden, weight, batch.labels_ignore).to(hidden.dtype)


for name, rounded in (("declares_the_loss", ("loss", "logits", "grad_logits", "grad_weight")),
                      ("declares_no_loss", ("logits", "grad_logits", "grad_weight"))):
    lossgrid.implementation(name=name, inputs="hidden", returns="loss", supports=unsupported,
                            rounds=rounded)(rounds_the_loss)


def row_by_row(hidden, weight, batch):
    """Sums the gradient of the weight up in its dtype, a row at a time."""
    logprobs = torch.log_softmax(hidden.float() @ weight.float().t(), 1)
    labels = batch.labels

    def backward(g):
        dz = -logprobs.exp() * g[:, None]
        dz[torch.arange(len(labels)), labels] += g
        dz = dz.to(weight.dtype)
        total = torch.zeros_like(weight)
        for row in (g != 0).nonzero()[:, 0].tolist():
            total += dz[row, :, None] * hidden[row]
        return (dz.float() @ weight.float()).to(hidden.dtype), total

    return logprobs.gather(1, labels[:, None])[:, 0], backward


for name, chunks in (("declares_chunks", lambda problem: problem.tokens), ("declares_no_chunks", 1)):
    lossgrid.implementation(name=name, inputs="hidden", autograd="own",
                            rounds=("grad_logits", "grad_weight"), chunks=chunks)(row_by_row)
