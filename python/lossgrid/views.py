# SPDX-License-Identifier: Apache-2.0
"""Attributes that are made when they are first read, and whose bits are watched."""
from __future__ import annotations

import ctypes
import difflib
from typing import (Any, Callable, ClassVar, ContextManager, Dict, Generic, List, Optional, Type,
                    TypeVar, Union, overload)

import torch

_T = TypeVar("_T")
Pause = Callable[[], ContextManager[None]]

_PROCESSOR = torch.device("cpu")


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bits of ``tensor`` as integers: NaN equals NaN, and -0 differs from 0."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    if tensor.dtype == torch.bool or tensor.numel() == 0:
        return tensor.detach()
    return tensor.detach().contiguous().view(whole[tensor.element_size()])


def _is_flat(tensor: torch.Tensor) -> bool:
    """True if the elements of ``tensor`` are one piece of memory of this processor."""
    return tensor.device == _PROCESSOR and tensor.is_contiguous() and \
        (tensor.data_ptr() != 0 or tensor.numel() == 0)


class Watched:
    """Tensor for the user's function, and a copy of its earlier values.

    On a processor the copy is bytes: to take and to compare these costs a fraction of what one
    operator does, and small trials watch many tensors.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self._form = (tensor.shape, tensor.dtype)
        self._size = tensor.numel() * tensor.element_size()
        self._before: Union[bytes, torch.Tensor] = \
            ctypes.string_at(tensor.data_ptr(), self._size) if _is_flat(tensor) else \
            tensor.detach().clone()

    def changed(self) -> bool:
        tensor, before = self.tensor, self._before
        if isinstance(before, bytes) and _is_flat(tensor):
            return (tensor.shape, tensor.dtype) != self._form or \
                ctypes.string_at(tensor.data_ptr(), self._size) != before
        return not torch.equal(bits(tensor), bits(self._copy()))

    def restore(self) -> None:
        """Restores the earlier values of the tensor."""
        with torch.no_grad():
            self.tensor.detach().copy_(self._copy())

    def _copy(self) -> torch.Tensor:
        """Returns the earlier values."""
        if isinstance(self._before, torch.Tensor):
            return self._before
        shape, dtype = self._form
        if self._size == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(bytearray(self._before), dtype=dtype).view(shape)


class View(Generic[_T]):
    """Descriptor: the value of a method, made once for an owner."""

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: Type[Any]) -> "View[_T]": ...

    @overload
    def __get__(self, owner: "Views", kind: Optional[Type[Any]] = None) -> _T: ...

    def __get__(self, owner: Optional["Views"],
                kind: Optional[Type[Any]] = None) -> Union[_T, "View[_T]"]:
        if owner is None:
            return self
        return owner._value(self._name, self._make)  # type: ignore[no-any-return]

    def __set__(self, owner: "Views", value: Any) -> None:
        raise AttributeError(f"{owner._title}{self._name} cannot be set")


class Views:
    """Object with lazy attributes. The cost of making them is not measured."""

    _making: ClassVar[bool] = False  # an attribute of any object

    def __init__(self, pause: Pause, title: str) -> None:
        self._pause = pause
        self._title = title
        self._values: Dict[str, Any] = {}
        self._watched: Dict[str, Watched] = {}

    def _value(self, name: str, make: Callable[[Any], Any]) -> Any:
        if name in self._values:
            return self._values[name]
        if Views._making:  # one that another is made of
            return self._made(name, make)
        Views._making = True
        try:
            with self._pause(), torch.no_grad():
                return self._made(name, make)
        finally:
            Views._making = False

    def _made(self, name: str, make: Callable[[Any], Any]) -> Any:
        value = self._values[name] = make(self)
        if isinstance(value, torch.Tensor):
            self._watched[name] = Watched(value)
        return value

    def _changed(self) -> List[str]:
        """Returns the names of tensors whose values have changed since they were made."""
        return [self._title + name for name, one in self._watched.items() if one.changed()]

    def _restore(self) -> None:
        for one in self._watched.values():
            if one.changed():
                one.restore()

    def _absent(self, name: str) -> Optional[str]:
        """Returns the reason why a known attribute is missing; None for an unknown attribute."""
        return None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        reason = self._absent(name)
        if reason is None:
            known = [one for one in dir(type(self)) if not one.startswith("_")]
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            reason = f"did you mean {self._title}{near[0]}?" if near else \
                "it has " + ", ".join(known)
        raise AttributeError(f"there is no {self._title}{name}: {reason}")
