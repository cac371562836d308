# SPDX-License-Identifier: Apache-2.0
"""Bytes of the tensors that operators return on a processor, followed by their storages."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Tuple

import torch

from lossgrid.measure.light_mode import LightMode

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_expired = torch.UntypedStorage._expired  # type: ignore[attr-defined]
_free_weak = torch.UntypedStorage._free_weak_ref  # type: ignore[attr-defined]


def _old_storage(tensor: torch.Tensor) -> Any:
    return tensor._storage()  # type: ignore[attr-defined]  # torch 1.13


_storage = getattr(torch.Tensor, "untyped_storage", _old_storage)


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    """Returns the tensors in a value or in what it holds."""
    if type(value) in _PLAIN:
        return (value,)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return ()
    found: List[torch.Tensor] = []
    for one in value:
        if type(one) in _PLAIN:
            found.append(one)
        elif isinstance(one, (tuple, list, dict)):
            found.extend(_tensors(one))
    return found


class LiveStorages:
    """Storages that user code has made in a trial and still holds, directly or through a graph.

    A storage that existed before counts nothing. Scratch memory inside of one operator is not seen.

    Storages are known by their addresses. A weak reference to each keeps its address from others,
    as a number: this runs for each tensor of each operator, and objects would take most of its time.
    """

    def __init__(self) -> None:
        self._known: Dict[int, int] = {}  # address: weak reference, of storages not of user code
        self._made: Dict[int, Tuple[int, int]] = {}  # address: weak reference, bytes
        self._live = 0
        self._base = 0
        self._peak = 0

    def __del__(self, free: Any = _free_weak) -> None:  # no global: these may be gone at the exit
        for weak in self._known.values():
            free(weak)
        for weak, _ in self._made.values():
            free(weak)

    def begin_phase(self) -> None:
        self._drop_freed()
        self._base = self._peak = self._live

    @property
    def peak(self) -> int:
        """Peak of the bytes held since the begin of the phase, minus the bytes held at its
        begin."""
        return self._peak - self._base

    def _drop_freed(self) -> None:
        made = self._made
        for address in [key for key, (weak, _) in made.items() if _expired(weak)]:
            weak, size = made.pop(address)
            _free_weak(weak)
            self._live -= size

    def _know(self, storage: Any, address: int) -> None:
        """Marks an unknown storage as not made by user code."""
        self._known[address] = storage._weak_ref()

    def _count(self, storage: Any, address: int) -> None:
        """Counts a storage that is not known as made by user code."""
        size = storage.nbytes()
        before = self._made.get(address)
        if before is not None and before[1] == size:
            return
        self._drop_freed()  # what was freed before matters only where the sum changes
        if before is None:
            self._made[address] = (storage._weak_ref(), size)
            self._live += size
        else:  # resized
            self._made[address] = (before[0], size)
            self._live += size - before[1]
        if self._live > self._peak:
            self._peak = self._live

    def follow(self, function: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """Calls an operator, and counts what it makes."""
        known, made = self._known, self._made
        for tensor in _tensors((args, kwargs) if kwargs else args):
            storage = _storage(tensor)
            address = storage._cdata
            if address not in known and address not in made:
                self._know(storage, address)
        result = function(*args, **kwargs)
        for tensor in _tensors(result):
            storage = _storage(tensor)
            address = storage._cdata
            if address not in known:
                self._count(storage, address)
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
