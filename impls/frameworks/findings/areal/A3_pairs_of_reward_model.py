# SPDX-License-Identifier: Apache-2.0
"""AReaL: the controller deals chosen and rejected answers by length, and pairs come apart."""
import support
import torch
from areal.infra.controller.train_controller import _dispatch_tensors
from areal.trainer.rw.rw_engine import RWController
from areal.trainer.rw_trainer import rw_modeling_collate_fn
from support import show

lengths = [(700, 650), (300, 280), (520, 100), (410, 390)]
examples = [{"chosen_ids": torch.full((a,), 2 * i), "rejected_ids": torch.full((b,), 2 * i + 1)}
            for i, (a, b) in enumerate(lengths)]
items = rw_modeling_collate_fn(examples)
taken = {}


class Controller(RWController):
    """Records how the call is dealt out, instead of sending it to workers."""

    def __init__(self, dp):
        self.dp = dp

    def _custom_function_call(self, name, *args, group_size=1, rpc_meta=None, **kwargs):
        splits, _ = _dispatch_tensors(args[0], self.dp, group_size)
        taken[name] = [[int(item["input_ids"][0, 0]) for item in split] for split in splits]

    def _pad_eval_dispatch_args(self, args, kwargs, group_size=1):
        return args, kwargs


for dp in (1, 2):
    controller = Controller(dp)
    controller.train_rw(items)
    controller.evaluate_rw(items)
    for name, ranks in taken.items():
        pairs = [tuple(rank[i:i + 2]) for rank in ranks for i in range(0, len(rank), 2)]
        right = sum(len(p) == 2 and p[0] % 2 == 0 and p[1] == p[0] + 1 for p in pairs)
        show(f"dp {dp}, {name}: pairs (2i is chosen, 2i + 1 rejected) {pairs}",
             f"{right} of 4 are pairs")
