# SPDX-License-Identifier: Apache-2.0
"""Part of the vocabulary on a TP rank."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:  # the launcher reports that PyTorch is missing
    import torch


class Shard:
    """Columns of the vocabulary that a TP rank holds, and columns that its function gets."""

    def __init__(self, vocab: int, tp: int, tp_rank: int, vocab_split: str) -> None:
        if vocab == 1:  # every rank has a head with one number per row
            tp, tp_rank = 1, 0
        self.width = -(-vocab // tp)
        self.begin = min(tp_rank * self.width, vocab)
        self.valid = min(self.begin + self.width, vocab) - self.begin
        self.fill: Optional[float] = None  # of columns beyond `valid`; None: without them
        if vocab_split != "ceil":
            self.begin = tp_rank * self.width
            self.fill = -1e30 if vocab_split.endswith("1e30") else float("-inf")
        self.given = self.valid if self.fill is None else self.width
        self.range = (self.begin, self.begin + self.given)

    def cut(self, tensor: "torch.Tensor", dimension: int) -> "torch.Tensor":
        """Returns the columns for the function from a tensor with the whole shard in ``dimension``;
        the tensor itself if both are the same."""
        if tensor.shape[dimension] == self.valid:
            return tensor
        if self.fill is None:
            return tensor.narrow(dimension, 0, self.valid).contiguous()
        tensor = tensor.clone()
        fill = self.fill if tensor.is_floating_point() else 0
        tensor.narrow(dimension, self.valid, self.width - self.valid).fill_(fill)
        return tensor
