# SPDX-License-Identifier: Apache-2.0
"""One collective of user code, in the same form for every way of intercepting it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from lossgrid.groups import GridGroups

_REDUCTIONS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG")


@dataclass(frozen=True)
class Part:
    """One tensor of a collective: the tensors that this rank sends, and the tensors that it
    receives."""

    inputs: Sequence[torch.Tensor]
    outputs: Sequence[torch.Tensor]


@dataclass(frozen=True)
class Call:
    """Collective before it is made."""

    op: str  # all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, ...
    group: Any  # ProcessGroup
    payload: Sequence[torch.Tensor]  # tensors that the rank sends
    reduce: Optional[str]  # "sum", "max", ...
    root: int  # rank in the group, if the operation has a root
    proceed: Callable[[], Any]
    parts: Callable[[], List[Part]]
    done: Callable[[List[Part]], Any]  # makes the result of a call whose outputs are written

    @property
    def bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.payload)


@dataclass(frozen=True)
class SeenCall:
    """The report of one collective."""

    group: str
    op: str
    reduce: Optional[str]
    bytes: int

    def message(self) -> Dict[str, Any]:
        return {"group": self.group, "op": self.op, "reduce": self.reduce, "bytes": self.bytes}


def totals(calls: Sequence[SeenCall]) -> List[Dict[str, Any]]:
    """Adds up calls and bytes by group and operation, in the order of the first calls."""
    sums: Dict[Tuple[str, str], List[int]] = {}
    for call in calls:
        entry = sums.setdefault((call.group, call.op), [0, 0])
        entry[0] += 1
        entry[1] += call.bytes
    return [{"group": group, "op": op, "calls": count, "bytes": size}
            for (group, op), (count, size) in sums.items()]


def reduction_name(op: Any) -> Optional[str]:
    """Returns the word for a ReduceOp or its name."""
    if isinstance(op, str):
        return op.lower()
    for name in _REDUCTIONS:
        if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name):
            return name.lower()
    return "other"


def group_ranks(group: Any) -> Tuple[int, ...]:
    """Returns the world ranks of ``group`` in its order."""
    if hasattr(dist, "get_process_group_ranks"):
        return tuple(dist.get_process_group_ranks(group))
    from torch.distributed import distributed_c10d
    if group is dist.group.WORLD:
        return tuple(range(dist.get_world_size()))
    places = distributed_c10d._pg_group_ranks[group]
    return tuple(sorted(places, key=lambda rank: places[rank]))


def group_name(groups: GridGroups, group: Any) -> str:
    """Returns "tp", "cp", "dp", "world" or "other"; groups of the user by their ranks."""
    for axis in groups.axes():
        if axis.group is group:
            return axis.name
    try:
        ranks = group_ranks(group)
    except (KeyError, RuntimeError, ValueError):
        return "other"
    for axis in groups.axes():
        if axis.ranks == ranks:
            return axis.name
    return "other"


def completed_work(groups: GridGroups) -> Any:
    """Returns the Work of a collective that is over. Operators take it, too, which need one that is
    not made in Python."""
    try:
        from torch._C._distributed_c10d import _create_work_from_future
    except ImportError:
        work = dist.all_reduce(torch.zeros(1), group=groups.alone.group, async_op=True)
        work.wait()
        return work
    future: Any = torch.futures.Future()
    future.set_result([])
    return _create_work_from_future(future)
