# SPDX-License-Identifier: Apache-2.0
"""verl: seq-mean-token-sum-norm divides by the padded width of each microbatch by default."""
import support
import torch
from support import show
from verl.trainer.ppo.core_algos import agg_loss

lengths = [2, 3, 40, 50]
losses = torch.ones(4, 50)
mask = (torch.arange(50) < torch.tensor(lengths)[:, None]).float()
mode = "seq-mean-token-sum-norm"


def cut(rows):
    """A microbatch as wide as its longest sequence."""
    width = max(lengths[row] for row in rows)
    return agg_loss(losses[rows, :width], mask[rows, :width], mode, global_batch_size=4)


whole = float(cut([0, 1, 2, 3]))
show("one microbatch", whole)
show("two, in the order of lengths", float(cut([0, 1]) + cut([2, 3])), whole)
show("two, long with short", float(cut([0, 3]) + cut([1, 2])), whole)
fixed = sum(agg_loss(losses[r], mask[r], mode, global_batch_size=4, loss_scale_factor=50)
            for r in ([0, 1], [2, 3]))
show("two, loss_scale_factor=50", float(fixed), whole)
