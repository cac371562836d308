# SPDX-License-Identifier: Apache-2.0
"""The all-gather of rows over CP whose backward takes the part of this rank."""
from __future__ import annotations

from typing import Any, Sequence, Tuple

import torch
import torch.distributed as dist

from lossgrid.groups import Axis


class _JoinRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rows: Sequence[torch.Tensor],
                cp: Axis) -> torch.Tensor:
        ctx.own = rows[cp.rank]
        parts = [torch.empty_like(x) for _ in range(cp.size)]
        dist.all_gather(parts, x.contiguous(), group=cp.group)
        joined = x.new_empty([x.shape[0] * cp.size] + list(x.shape[1:]))
        for part, place in zip(parts, rows):
            joined[place] = part
        return joined

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> Tuple[torch.Tensor, None, None]:
        return upstream[0].index_select(0, ctx.own), None, None


def join_rows(x: torch.Tensor, rows: Sequence[torch.Tensor], cp: Axis) -> torch.Tensor:
    """Returns [T_pad, ...] of ``x`` [T_c, ...]; ``rows`` has the rows of every CP rank."""
    if cp.size == 1:
        return x
    return _JoinRows.apply(x, rows, cp)  # type: ignore[no-any-return]
