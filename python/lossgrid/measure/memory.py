# SPDX-License-Identifier: Apache-2.0
"""Bytes of the tensors that operators return on a processor, followed by their storages."""
from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Tuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from lossgrid.measure.light_mode import LightMode

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _storage(tensor: torch.Tensor) -> Any:
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    return tensor._storage()  # type: ignore[attr-defined]  # torch 1.13


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if type(value) in _PLAIN:
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)


class LiveStorages:
    """Storages that user code has made in a trial and still holds, directly or through a graph.

    A storage that existed before counts nothing. Scratch memory inside of one operator is not seen.
    """

    def __init__(self) -> None:
        self._held: Dict[int, Tuple[StorageWeakRef, Optional[int]]] = {}  # None: not of user code
        self._live = 0
        self._base = 0
        self._peak = 0

    def begin_phase(self) -> None:
        self._drop_freed()
        self._base = self._peak = self._live

    @property
    def peak(self) -> int:
        """Peak of the bytes held since the begin of the phase, minus the bytes held at its
        begin."""
        return self._peak - self._base

    def known(self, value: Any) -> None:
        """Marks unknown storages of ``value`` as not made by user code."""
        for tensor in _tensors(value):
            storage = _storage(tensor)
            if storage._cdata not in self._held:
                self._held[storage._cdata] = (StorageWeakRef(storage), None)

    def made(self, value: Any) -> None:
        """Counts unknown storages of ``value`` as made by user code."""
        is_first = True
        for tensor in _tensors(value):
            storage = _storage(tensor)
            key, size = storage._cdata, storage.nbytes()
            before = self._held.get(key)
            if before is not None and before[1] in (None, size):
                continue
            if is_first:  # what was freed before matters only where the sum changes
                self._drop_freed()
                is_first = False
            if before is None:
                self._held[key] = (StorageWeakRef(storage), size)
                self._live += size
            else:  # resized
                self._held[key] = (before[0], size)
                self._live += size - (before[1] or 0)
        self._peak = max(self._peak, self._live)

    def _drop_freed(self) -> None:
        for key in [key for key, (weak, _) in self._held.items() if weak.expired()]:
            self._live -= self._held.pop(key)[1] or 0


    def follow(self, function: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """Calls an operator, and counts what it makes."""
        self.known(args)
        if kwargs:
            self.known(kwargs)
        result = function(*args, **kwargs)
        self.made(result)
        return result


class MemoryMode(LightMode):
    """Follows the storages that operators return while it is entered."""

    def __init__(self, storages: LiveStorages) -> None:
        super().__init__()
        self._storages = storages
        self.paused = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Tuple[Any, ...] = (),
                           kwargs: Optional[Dict[str, Any]] = None) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return function(*args, **kwargs)
        return self._storages.follow(function, args, kwargs)
