# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL: gathers of log-probabilities and logits at given ids are NaN beside a masked column.

An id of another TP rank reads the first or the last column of the shard, and the product with 0 that
drops it is 0 * -inf where that column is masked.
"""
import support
import torch
import torch.distributed as dist
from support import gradient, ranks, show


def run(rank):
    support.nemo_rl()
    from nemo_rl.distributed import model_utils
    torch.manual_seed(1)
    whole = torch.randn(1, 3, 16)
    ids = torch.tensor([2, 12]).expand(1, 3, 2)
    for value in (float("-inf"), -1e30):
        for column, name in ((8, "the first of rank 1"), (7, "the last of rank 0"), (5, "another")):
            logits = whole.clone()
            logits[..., column] = value
            want = logits.log_softmax(-1).gather(-1, ids)[0, 0].tolist()
            own = logits[..., 8 * rank:8 * rank + 8].clone().requires_grad_()
            place = (8 * rank, 8 * rank + 8)
            got = model_utils.ChunkedDistributedGatherLogprob.apply(
                own, ids, *place, 2, dist.group.WORLD)
            raw = model_utils.gather_logits_at_global_indices(
                own, ids, dist.group.WORLD, vocab_start_index=place[0], vocab_end_index=place[1])
            finite = bool(gradient(got.sum(), own).isfinite().all())
            if rank == 0:
                where = f"{value} in {name} column"
                show(f"{where}: log-probabilities of ids 2 and 12",
                     [round(x, 4) for x in got[0, 0].tolist()], [round(x, 4) for x in want])
                show(f"{where}: their logits", [round(x, 4) for x in raw[0, 0].tolist()],
                     [round(x, 4) for x in logits[0, 0, [2, 12]].tolist()])
                show(f"{where}: gradient is finite", finite, True)


if __name__ == "__main__":
    ranks(2, run)
