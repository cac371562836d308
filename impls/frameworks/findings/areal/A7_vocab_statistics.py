# SPDX-License-Identifier: Apache-2.0
"""AReaL: least and largest logit are those of the TP shard; export of one key fails."""
from types import SimpleNamespace as Namespace

import support
import torch
from support import ranks, show


def run(rank):
    from areal.engine.megatron_engine import MegatronEngine
    from areal.utils.stats_tracker import DistributedStatsTracker
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    engine = Namespace(config=Namespace(is_critic=False, temperature=1.0),
                       enable_tree_training=False)
    torch.manual_seed(1)
    logits, ids = torch.randn(8, 32), torch.randint(32, (8,))
    seen = {}

    def loss_fn(lp, entropy, inputs, vocab_min_logits, vocab_max_logits):
        seen.update(low=float(vocab_min_logits.mean()), high=float(vocab_max_logits.mean()))
        return -lp.mean()

    MegatronEngine._compute_logprobs_and_loss(
        engine, logits[:, 16 * rank:16 * rank + 16].clone().requires_grad_(), {"input_ids": ids},
        loss_fn, lambda _: 1.0, 1.0)
    print(f"tp 2, rank {rank}: mean of the least and of the largest logit "
          f"{seen['low']:.4f} {seen['high']:.4f} (right: {float(logits.amin(1).mean()):.4f} "
          f"{float(logits.amax(1).mean()):.4f})", flush=True)
    if rank == 0:
        tracker = DistributedStatsTracker()
        tracker.denominator(n=torch.ones(3, dtype=torch.bool))
        tracker.stat(x=torch.ones(3), denominator="n")
        for key in ("x", "n"):
            try:
                show(f"export(key={key!r})", tracker.export(key=key))
            except KeyError as error:
                show(f"export(key={key!r})", f"KeyError: {error}")


if __name__ == "__main__":
    ranks(2, run)
