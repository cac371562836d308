# SPDX-License-Identifier: Apache-2.0
"""AReaL: a critic or a reward model with CP gets the values of its own rows beside whole inputs.

Functions of ``MegatronEngine`` and the losses of the critic and of the reward model are the real
ones; the engine is a stand-in and the values are given.
"""
from types import SimpleNamespace as Namespace

import support
import torch
from support import ranks, show


def attempt(what, function):
    try:
        result = function()
        show(what, float(result) if result.numel() == 1 else f"shape {tuple(result.shape)}")
    except (RuntimeError, AssertionError, IndexError) as error:
        show(what, f"{type(error).__name__}: {str(error)[:100]}", "a loss")


def run(rank):
    from areal.engine.core.train_engine import reorder_and_pad_outputs
    from areal.engine.megatron_engine import MegatronEngine
    from areal.trainer.ppo.critic import ppo_loss_fn
    from areal.trainer.rw.rw_engine import compute_rw_loss
    engine = Namespace(config=Namespace(is_critic=True), enable_tree_training=False)
    torch.manual_seed(1)
    lengths, padded = [20, 41], 256
    tokens = sum(lengths)
    inputs = {"values": torch.randn(tokens), "returns": torch.randn(tokens),
              "loss_mask": torch.ones(tokens, dtype=torch.bool), "input_ids": torch.ones(1, tokens),
              "cu_seqlens": torch.tensor([0, *torch.tensor(lengths).cumsum(0)])}
    for cp in (1, 2):
        rows = tokens if cp == 1 else padded // cp
        output = torch.randn(rows, 1)
        for name, loss_fn in (("critic", lambda v, i: ppo_loss_fn(v, i, 0.2)),
                              ("reward model", compute_rw_loss)):
            attempt(f"cp {cp}: loss of a {name}", lambda: MegatronEngine._compute_logprobs_and_loss(
                engine, output, inputs, loss_fn, lambda _: torch.tensor(1.0), torch.tensor(1.0)))
        part = Namespace(forward_indices=[0, 1], backward_indices=[0, 1])
        attempt(f"cp {cp}: compute_values", lambda: reorder_and_pad_outputs(
            [MegatronEngine._compute_forward_result(engine, output, inputs)], lengths, part))


if __name__ == "__main__":
    ranks(1, run)
