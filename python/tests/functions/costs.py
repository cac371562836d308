# SPDX-License-Identifier: Apache-2.0
"""Functions with cost models; a name that ends in a mistake is that of a model that makes it."""
import lossgrid
import torch


def _lp(logits, batch):
    return torch.log_softmax(logits, 1).gather(1, batch.labels[:, None])[:, 0]


def _facts(problem):
    return lossgrid.Cost(lossgrid.Phase(
        [("tp", "all_reduce", 3, 3 * 4 * problem.rows)],
        problem.rows * problem.columns * problem.options["chunk"] + problem.hidden_rows))


@lossgrid.implementation(cost=_facts)
def cost_of_facts(logits, batch, *, chunk=4):
    return _lp(logits, batch)


@lossgrid.implementation(cost=_facts, vocab_split="equal")
def cost_of_facts_equal(logits, batch, *, chunk=4):
    return _lp(logits, batch)


def _by_rank(problem):
    return lossgrid.Cost(backward=lossgrid.Phase(
        [] if problem.tp_rank else [("cp", "send", 1, problem.cp_rank)]))


@lossgrid.implementation(cost=_by_rank)
def cost_by_rank(logits, batch):
    return _lp(logits, batch)


_Phase = lossgrid.Phase
WRONG = {
    "none": None,
    "dict": {"forward": {}},
    "phase": lossgrid.Cost(forward=3),
    "peak": lossgrid.Cost(_Phase(peak_bytes=2.5)),
    "negative": lossgrid.Cost(_Phase(peak_bytes=-1)),
    "call": lossgrid.Cost(backward=_Phase([("tp", "all_reduce", 3)])),
    "group": lossgrid.Cost(_Phase([("tpp", "all_reduce", 3, 4)])),
    "operation": lossgrid.Cost(_Phase([("tp", "barrier", 1, 0), ("tp", "allreduce", 3, 4)])),
    "calls": lossgrid.Cost(_Phase("all_reduce")),
}


def _wrong(problem):
    return WRONG[problem.options["what"]]


@lossgrid.implementation(cost=_wrong)
def cost_wrong(logits, batch, *, what=""):
    return _lp(logits, batch)
