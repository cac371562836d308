# SPDX-License-Identifier: Apache-2.0
"""Raw arrays of a batch, and the mistakes that mutants make in reading them."""
from __future__ import annotations

from dataclasses import dataclass
from typing import List

import torch

from lossgrid.arena import Arena
from lossgrid.groups import GridGroups
from lossgrid.layout import own_rows
from lossgrid.problem import Problem
from lossgrid.shard import Shard
from lossgrid.views import Pause


@dataclass(frozen=True)
class BatchData:
    """Sources of the views of one batch."""

    problem: Problem
    groups: GridGroups
    device: torch.device
    arena: Arena
    pause: Pause
    shard: Shard
    roll_labels: bool = False
    ignore_mask: bool = False

    def has(self, name: str) -> bool:
        return name in self.arena

    def copy(self, name: str) -> torch.Tensor:
        """Returns a copy on the device, which user code may change without effects elsewhere."""
        return self.arena.get(name).clone().to(self.device)

    def columns(self, name: str) -> torch.Tensor:
        """Returns a copy of an array [rows, V_t] with the columns that the function gets."""
        return self.shard.cut(self.arena.get(name), 1).clone().to(self.device)

    def rows_of_ids(self, name: str) -> torch.Tensor:
        """Returns a copy of an array [V_t, size] with the rows of the columns that the function
        gets, 0 in padding."""
        rows = self.shard.cut(self.arena.get(name), 0).clone()
        rows[self.shard.valid:] = 0
        return rows.to(self.device)

    def numbers(self, name: str) -> List[int]:
        return [int(number) for number in self.arena.get(name).tolist()]

    def mask(self, name: str) -> torch.Tensor:
        mask = self.copy(name).bool()
        return torch.ones_like(mask) if self.ignore_mask else mask

    def targets(self) -> torch.Tensor:
        return self._ids("targets")

    def ids(self) -> torch.Tensor:
        return self._ids("ids_padded")

    def rows_of(self, cp_rank: int) -> torch.Tensor:
        """Returns [T_c] int64: rows of the pack that ``cp_rank`` holds."""
        cp = self.problem.grid.cp
        rows = own_rows(self.problem.cp_cut, self.numbers("cu_seqlens_padded"), cp, cp_rank)
        return torch.tensor(rows, dtype=torch.int64, device=self.device)

    def _ids(self, name: str) -> torch.Tensor:
        ids = self.copy(name)
        if self.roll_labels:
            for cp_rank in range(self.problem.grid.cp):
                rows = self.rows_of(cp_rank)
                ids[rows] = ids[rows].roll(1)
        return ids

    def reason_absent(self, name: str) -> str:
        kind = self.problem.objective.get("kind", "")
        return f"objective {kind!r} does not read {name}"
