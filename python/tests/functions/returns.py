# SPDX-License-Identifier: Apache-2.0
"""Functions with one way of returning each. The vocabulary of all is whole (tp = 1)."""
import lossgrid
import torch


def _picked(logits, batch):
    return torch.log_softmax(logits, 1).gather(1, batch.labels[:, None])[:, 0]


def _entropy(logits):
    lp = torch.log_softmax(logits, 1)
    return -(lp.exp() * lp).sum(1)


@lossgrid.implementation
def plain(logits, batch):
    """Log-probabilities of plain torch."""
    return _picked(logits, batch)


@lossgrid.implementation
def leading_one(logits, batch):
    return _picked(logits, batch)[None]


@lossgrid.implementation(returns="nll")
def nll(logits, batch):
    return -_picked(logits, batch)


@lossgrid.implementation(returns=("logprobs", "entropy"))
def pair(logits, batch):
    return _picked(logits, batch), _entropy(logits)


@lossgrid.implementation(returns=("nll", "entropy"))
def named(logits, batch):
    return {"entropy": _entropy(logits), "nll": -_picked(logits, batch)}


@lossgrid.implementation(returns="loss")
def loss(logits, batch):
    lp = torch.where(batch.mask, _picked(logits, batch), torch.zeros(()))
    return -lp.sum() / batch.denominators.valid_tokens


@lossgrid.implementation(returns="loss")
def loss_nan(logits, batch):
    return logits.sum() * float("nan")


@lossgrid.implementation(rows="pack")
def pack(logits, batch):
    return batch.join_cp(_picked(logits, batch))


@lossgrid.implementation(rows="padded", returns=("logprobs", "entropy"))
def padded(logits, batch):
    rows = batch.join_cp(_picked(logits, batch)), batch.join_cp(_entropy(logits))
    return tuple(batch.rows_to_padded(one)[:, :-1] for one in rows)


@lossgrid.implementation(returns=("logprobs", "entropy"))
def logged_entropy(logits, batch):
    with torch.no_grad():
        entropy = _entropy(logits)
    return _picked(logits, batch), entropy


@lossgrid.implementation
def keyworded(logits, batch, *, chunk: int = 4, scale=1.0, note="", double=False):
    """Adds up its options."""
    return _picked(logits, batch) * scale + chunk * 100 + (1000 if double else 0) + len(note)


# Wrong ones.

@lossgrid.implementation
def three_dimensions(logits, batch):
    return logits[None]


@lossgrid.implementation
def not_a_tensor(logits, batch):
    return [0.0]


@lossgrid.implementation
def integers(logits, batch):
    return batch.labels


@lossgrid.implementation
def detached(logits, batch):
    return _picked(logits, batch).detach()


@lossgrid.implementation
def other_device(logits, batch):
    return torch.empty(logits.shape[0], device="meta")


@lossgrid.implementation(returns=("logprobs", "entropy"))
def one_of_two(logits, batch):
    return _picked(logits, batch)


@lossgrid.implementation(returns=("logprobs", "entropy"))
def misnamed(logits, batch):
    return {"logprob": _picked(logits, batch), "entropy": _entropy(logits)}


@lossgrid.implementation(returns="loss")
def loss_by_row(logits, batch):
    return _picked(logits, batch)


@lossgrid.implementation
def independent(logits, batch):
    return torch.ones(logits.shape[0], requires_grad=True) * 2


@lossgrid.implementation
def misspelt(logits, batch):
    return batch.lables


@lossgrid.implementation
def reads_advantages(logits, batch):
    return batch.advantages
