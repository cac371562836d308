# SPDX-License-Identifier: Apache-2.0
"""The part of the vocabulary that a TP rank has."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:  # the launcher reports that PyTorch is missing
    import torch


class Shard:
    """Columns of the vocabulary that a TP rank holds, and those that its function is given."""

    def __init__(self, vocab: int, tp: int, tp_rank: int, vocab_split: str) -> None:
        if vocab == 1:  # a head of one number a row is on every rank
            tp, tp_rank = 1, 0
        self.width = -(-vocab // tp)
        self.begin = min(tp_rank * self.width, vocab)
        self.valid = min(self.begin + self.width, vocab) - self.begin
        self.fill: Optional[float] = None  # of the columns beyond `valid`; None: not given
        if vocab_split != "ceil":
            self.begin = tp_rank * self.width
            self.fill = -1e30 if vocab_split.endswith("1e30") else float("-inf")
        self.given = self.valid if self.fill is None else self.width
        self.range = (self.begin, self.begin + self.given)

    def cut(self, tensor: "torch.Tensor", dimension: int) -> "torch.Tensor":
        """Returns the columns that the function is given of a tensor that has all of the shard in
        ``dimension``; the tensor itself where these are the same."""
        if tensor.shape[dimension] == self.valid:
            return tensor
        if self.fill is None:
            return tensor.narrow(dimension, 0, self.valid).contiguous()
        tensor = tensor.clone()
        fill = self.fill if tensor.is_floating_point() else 0
        tensor.narrow(dimension, self.valid, self.width - self.valid).fill_(fill)
        return tensor
