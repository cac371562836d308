# SPDX-License-Identifier: Apache-2.0
"""Tensors over the memory that host and worker share."""
from __future__ import annotations

import mmap
import os
from typing import Any, Dict, Mapping, Optional, Tuple

import torch

from lossgrid.errors import ProtocolError

_DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16,
           "int64": torch.int64, "uint8": torch.uint8}
_WIDTHS = {dtype: torch.empty(0, dtype=dtype).element_size() for dtype in _DTYPES.values()}


class Mapped:
    """Memory file that was mapped last. Trials that share a file map it once."""

    def __init__(self) -> None:
        self._key: Optional[Tuple[int, int, int]] = None
        self._memory: Optional[mmap.mmap] = None

    def map(self, descriptor: int) -> mmap.mmap:
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino, status.st_size)
        if self._memory is None or key != self._key:
            # Never closed explicitly, because tensors that user code keeps would point nowhere.
            self._memory = mmap.mmap(descriptor, status.st_size)
            self._key = key
        return self._memory


class Arena:
    """Arrays of one trial, by name, as views of the shared memory."""

    def __init__(self, memory: mmap.mmap, arrays: Mapping[str, Any]) -> None:
        self._memory = memory
        self._places = arrays
        self._views: Dict[str, torch.Tensor] = {}  # made when they are first read

    @staticmethod
    def _view(memory: mmap.mmap, name: str, place: Mapping[str, Any]) -> torch.Tensor:
        dtype = _DTYPES.get(place["dtype"])
        if dtype is None:
            raise ProtocolError(f"array {name} has dtype {place['dtype']!r}")
        shape = [int(extent) for extent in place["shape"]]
        count = 1
        for extent in shape:
            count *= extent
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        width = _WIDTHS[dtype]
        offset = int(place["offset"])
        if offset % width or offset + count * width > len(memory):
            raise ProtocolError(f"array {name} is not inside the arena of {len(memory)} bytes")
        flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
        return flat if len(shape) == 1 else flat.view(shape)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def get(self, name: str) -> torch.Tensor:
        """Returns the view called ``name``, whose contents the host sees."""
        view = self._views.get(name)
        if view is None:
            if name not in self._places:
                raise ProtocolError(f"the arena has no array {name!r}")
            view = self._views[name] = self._view(self._memory, name, self._places[name])
        return view

    def names(self) -> Tuple[str, ...]:
        return tuple(self._places)
