# SPDX-License-Identifier: Apache-2.0
"""AReaL: SFT divides by the tokens of a microbatch plus 1e-5, its engine multiplies by the tokens.

``compute_packed_sft_loss`` and ``_compute_logprobs_and_loss`` are the real ones; the engine is an object
with the three options that they read.
"""
from types import SimpleNamespace as Namespace

import support
import torch
from support import ranks, show


def run(_):
    from areal.engine.megatron_engine import MegatronEngine
    from areal.trainer.sft.lm_engine import compute_packed_sft_loss
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel()
    engine = Namespace(config=Namespace(is_critic=False, temperature=1.0),
                       enable_tree_training=False)
    for tokens in (1, 4, 64):
        inputs = {"input_ids": torch.zeros(64, dtype=torch.long), "cu_seqlens": torch.tensor([0, 64]),
                  "loss_mask": torch.arange(64) < tokens}
        loss = MegatronEngine._compute_logprobs_and_loss(
            engine, torch.zeros(64, 2), inputs, compute_packed_sft_loss,
            lambda x: x["loss_mask"].count_nonzero(), torch.tensor(64.0))
        right = tokens / 64 * torch.tensor(2.0, dtype=torch.float64).log()  # of two equal logits
        show(f"{tokens} of 64 tokens: loss over the right one, less 1", float(loss / right - 1), 0)


if __name__ == "__main__":
    ranks(1, run)
