# SPDX-License-Identifier: Apache-2.0
"""AReaL: log-probabilities that are recomputed with CP belong to other tokens, or are an error."""
from types import SimpleNamespace as Namespace

import support
import torch
from support import ranks, show


def run(rank):
    from areal.engine.megatron_engine import MegatronEngine
    from areal.engine.megatron_utils.packed_context_parallel import (
        split_packed_seqs_for_context_parallel as split)
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel(context_parallel_size=2)
    engine = Namespace(config=Namespace(is_critic=False, temperature=1.0),
                       enable_tree_training=False)
    torch.manual_seed(1)
    table = 2 * torch.randn(32, 32)  # a bigram model
    for lengths, padded in (([20, 40], 256), ([100, 156], 256)):
        tokens = sum(lengths)
        ids = torch.randint(32, (tokens,))
        # every sequence is a multiple of 2 cp long, and one of padding fills a page of 256 tokens
        cu = torch.tensor([0, lengths[0], tokens] + [padded] * (padded > tokens))
        own = split(torch.nn.functional.pad(ids, (0, padded - tokens)), cu)  # of this CP rank
        try:
            got = MegatronEngine._compute_forward_result(engine, table[own], {"input_ids": ids})
            want = table[ids].log_softmax(1).gather(1, ids.roll(-1)[:, None])[:, 0]
            found = f"shape {tuple(got.shape)}, largest error {float((got - want).abs().max()):.3g}"
        except (RuntimeError, IndexError) as error:
            found = f"{type(error).__name__}: {str(error)[:100]}"
        show(f"cp 2, rank {rank}, {tokens} tokens padded to {padded}", found)


if __name__ == "__main__":
    ranks(2, run)
