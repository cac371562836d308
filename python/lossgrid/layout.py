# SPDX-License-Identifier: Apache-2.0
"""Places of the rows of the padded pack: on CP ranks, and in a table with a row for a sequence."""
from __future__ import annotations

from typing import List, Sequence

import torch

from lossgrid.problem import Cut


def own_rows(cut: Cut, cu_padded: Sequence[int], cp: int, rank: int) -> List[int]:
    """Returns [T_c], the rows of the pack that CP rank ``rank`` holds, in its order.

    With cp = 1 it holds all rows.
    """
    if cp == 1:
        return list(range(cu_padded[-1]))
    ranks = list(range(cp))
    owners = [one for k in range(cut.rounds)
              for one in (ranks[::-1] if cut.turns and k % 2 else ranks)]
    rows: List[int] = []
    for begin, end in zip(cu_padded, cu_padded[1:]) if cut.sequences else [(0, cu_padded[-1])]:
        chunk = (end - begin) // len(owners)
        for place, owner in enumerate(owners):
            if owner == rank:
                rows.extend(range(begin + place * chunk, begin + (place + 1) * chunk))
    return rows


class Table:
    """The map between rows of the pack [T_pad, ...] and a table [B, S, ...] with a row a sequence.

    S is the longest padded length; slots after the end of a sequence hold zeros.
    """

    def __init__(self, cu_padded: Sequence[int], device: torch.device) -> None:
        lengths = [end - begin for begin, end in zip(cu_padded, cu_padded[1:])]
        self.sequences = len(lengths)
        self.width = max(lengths, default=0)
        slots: List[int] = []
        for sequence, length in enumerate(lengths):
            slots.extend(range(sequence * self.width, sequence * self.width + length))
        self._slots = torch.tensor(slots, dtype=torch.int64, device=device)  # [T_pad]

    def spread(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns [B, S, ...] of ``rows`` [T_pad, ...]; differentiable."""
        tail = list(rows.shape[1:])
        flat = rows.new_zeros([self.sequences * self.width] + tail)
        return flat.index_copy(0, self._slots, rows).view([self.sequences, self.width] + tail)

    def collect(self, table: torch.Tensor) -> torch.Tensor:
        """Returns [T_pad, ...] of ``table`` [B, S, ...]; differentiable."""
        flat = table.reshape([self.sequences * self.width] + list(table.shape[2:]))
        return flat.index_select(0, self._slots)
