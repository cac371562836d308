# SPDX-License-Identifier: Apache-2.0
"""World of ranks and its process groups, made once for each grid."""
from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from lossgrid.errors import BadInput, ProtocolError
from lossgrid.problem import Grid
from lossgrid.shared_group.choice import backend

_NAMES_GROUPS = "group_desc" in inspect.signature(dist.new_group).parameters


@dataclass(frozen=True)
class Axis:
    """Axis of the grid from the view of a rank."""

    name: str  # "tp", "cp", "dp" or "world"
    rank: int  # rank of this process in ``size``
    size: int
    group: Any  # torch.distributed.ProcessGroup
    ranks: Tuple[int, ...]  # world ranks of the group, in its order


def axis_ranks(grid: Grid, axis: str) -> List[Tuple[int, ...]]:
    """Returns the world ranks of every group along ``axis``; the TP rank changes fastest."""
    sizes = {"tp": grid.tp, "cp": grid.cp, "dp": grid.dp}
    stride = {"tp": 1, "cp": grid.tp, "dp": grid.tp * grid.cp}[axis]
    groups = []
    for first in range(grid.size):
        if first // stride % sizes[axis] == 0:
            groups.append(tuple(first + stride * i for i in range(sizes[axis])))
    return groups


@dataclass(frozen=True)
class GridGroups:
    """The axes of one grid. The world is all ranks of it."""

    grid: Grid
    tp: Axis
    cp: Axis
    dp: Axis
    world: Axis
    alone: Axis  # this rank

    def axes(self) -> Tuple[Axis, ...]:
        return (self.tp, self.cp, self.dp, self.world)


class World:
    """torch.distributed for ``size`` ranks, of which this worker is one."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self._store: Optional[Any] = None
        self._timeout = timedelta(seconds=300)
        self._joined = False
        self._grids: Dict[Grid, GridGroups] = {}
        self._by_ranks: Dict[Tuple[str, Tuple[int, ...]], Any] = {}

    def listen(self) -> int:
        """Opens a new store on loopback and returns its port."""
        if self.rank != 0:
            raise ProtocolError(f"listen is for rank 0, this is rank {self.rank}")
        self._store = dist.TCPStore("127.0.0.1", 0, self.size, True,
                                    timeout=self._timeout, wait_for_workers=False)
        return int(self._store.port)

    def join(self, host: str, port: int, timeout_s: float) -> None:
        """Connects to the other ranks through the store and makes the default group."""
        self._timeout = timedelta(seconds=timeout_s)
        one_machine = host in ("127.0.0.1", "localhost", "::1")
        if one_machine:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if self._store is None:
            self._store = dist.TCPStore(host, port, self.size, False, timeout=self._timeout,
                                        wait_for_workers=False)
        dist.init_process_group(backend(self.size, one_machine), store=self._store, rank=self.rank,
                                world_size=self.size, timeout=self._timeout)
        self._joined = True

    def _group(self, name: str, ranks: Tuple[int, ...]) -> Any:
        key = (name, ranks)
        if key not in self._by_ranks:
            described = {"group_desc": name} if _NAMES_GROUPS else {}
            self._by_ranks[key] = dist.new_group(list(ranks), timeout=self._timeout, **described)
        return self._by_ranks[key]

    def _axis(self, name: str, all_ranks: Sequence[Tuple[int, ...]]) -> Axis:
        mine: Optional[Axis] = None
        for ranks in all_ranks:  # every rank takes part in making every group
            group = self._group(name, ranks)
            if self.rank in ranks:
                mine = Axis(name, ranks.index(self.rank), len(ranks), group, ranks)
        assert mine is not None
        return mine

    def grid(self, grid: Grid) -> GridGroups:
        """Returns the groups of ``grid``. All ranks must request the same grids in the same
        order."""
        if not self._joined:
            raise ProtocolError("begin comes after join")
        if grid.size != self.size:
            raise ProtocolError(f"grid {grid} has {grid.size} ranks, this world has {self.size}")
        if grid not in self._grids:
            everyone = tuple(range(self.size))
            self._grids[grid] = GridGroups(
                grid, self._axis("tp", axis_ranks(grid, "tp")),
                self._axis("cp", axis_ranks(grid, "cp")),
                self._axis("dp", axis_ranks(grid, "dp")),
                Axis("world", self.rank, self.size, dist.group.WORLD, everyone),
                self._axis("alone", [(rank,) for rank in everyone]))
        return self._grids[grid]

    def device(self, kind: str) -> torch.device:
        """Returns the device of this rank, and makes a GPU the current one of this process."""
        if kind == "cpu":
            return torch.device("cpu")
        if kind != "cuda":
            raise ProtocolError(f"device {kind!r} is not cpu or cuda")
        if not torch.cuda.is_available():
            raise BadInput(f"torch {torch.__version__} sees no CUDA device")
        device = torch.device("cuda", self.rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        return device

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()
