# SPDX-License-Identifier: Apache-2.0
"""AReaL: a data-parallel rank without a valid token reduces other statistics than its neighbours.

The loss, the engine's ``_compute_logprobs_and_loss``, which returns before it, and the tracker are the
real ones; the engine is an object with the options that they read.
"""
from types import SimpleNamespace as Namespace

import support
import torch
import torch.distributed as dist
from support import ranks, show
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException


def run(rank, tokens):
    from areal.engine.megatron_engine import MegatronEngine
    from areal.trainer.sft.lm_engine import compute_packed_sft_loss
    from areal.utils import stats_tracker
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel()
    engine = Namespace(config=Namespace(is_critic=False, temperature=1.0),
                       enable_tree_training=False)
    inputs = {"input_ids": torch.zeros(8, dtype=torch.long), "cu_seqlens": torch.tensor([0, 8]),
              "loss_mask": torch.arange(8) < tokens[rank]}
    MegatronEngine._compute_logprobs_and_loss(
        engine, torch.zeros(8, 2), inputs, compute_packed_sft_loss,
        lambda x: x["loss_mask"].count_nonzero(), torch.tensor(8.0))
    loss = stats_tracker.export_all(reduce_group=dist.group.WORLD)["loss/avg"]
    if rank == 0:
        show(f"ranks with {tokens[0]} and {tokens[1]} tokens: loss", loss, 0.6931472)


if __name__ == "__main__":
    for counts in ((5, 3), (5, 0)):
        try:
            ranks(2, run, counts)
        except (ProcessExitedException, ProcessRaisedException) as error:
            show(f"ranks with {counts[0]} and {counts[1]} tokens: the process ended",
                 str(error).strip().splitlines()[-1], "loss 0.6931472")
