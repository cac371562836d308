# SPDX-License-Identifier: Apache-2.0
"""Collectives as methods of a class of process groups: of all groups for torch whose operators do
not name their groups, and of groups that are written in Python and make no operators."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, ClassVar, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
import torch.distributed as dist

from lossgrid.groups import GridGroups
from lossgrid.measure.calls import Call, completed_work, reduction_name
from lossgrid.measure.operators import OnCall, parts_of, payload_of

# Names of methods -> (op, name of the operator with the same tensor arguments).
_METHODS: Dict[str, Tuple[str, str]] = {
    "allreduce": ("all_reduce", "allreduce_"),
    "allreduce_coalesced": ("all_reduce", "allreduce_coalesced_"),
    "allgather": ("all_gather", "allgather_"),
    "_allgather_base": ("all_gather", "_allgather_base_"),
    "all_gather_single": ("all_gather", "_allgather_base_"),
    "allgather_coalesced": ("all_gather", "allgather_coalesced_"),
    "allgather_into_tensor_coalesced": ("all_gather", "allgather_into_tensor_coalesced_"),
    "all_gather_single_coalesced": ("all_gather", "allgather_into_tensor_coalesced_"),
    "reduce_scatter": ("reduce_scatter", "reduce_scatter_"),
    "_reduce_scatter_base": ("reduce_scatter", "_reduce_scatter_base_"),
    "reduce_scatter_single": ("reduce_scatter", "_reduce_scatter_base_"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", "reduce_scatter_tensor_coalesced_"),
    "reduce_scatter_single_coalesced": ("reduce_scatter", "reduce_scatter_tensor_coalesced_"),
    "broadcast": ("broadcast", "broadcast_"),
    "reduce": ("reduce", "reduce_"),
    "gather": ("gather", "gather_"),
    "scatter": ("scatter", "scatter_"),
    "alltoall": ("all_to_all", "alltoall_"),
    "alltoall_base": ("all_to_all", "alltoall_base_"),
    "all_to_all_single": ("all_to_all", "alltoall_base_"),
    "send": ("send", "send"),
    "recv": ("recv", "recv_"),
    "recv_anysource": ("recv", "recv_any_source_"),
    "barrier": ("barrier", "barrier"),
}


def _tensors(args: Sequence[Any], operator: str) -> List[Any]:
    """Returns tensor arguments in the form of the operator, with split sizes where it has them."""
    if operator == "alltoall_base_":
        return [args[0], args[1], None, args[2], args[3]]
    if operator in ("_allgather_base_", "_reduce_scatter_base_"):
        return [args[0], args[1]]
    if isinstance(args[0], torch.Tensor):  # one tensor instead of a list of one
        return [[one] if isinstance(one, torch.Tensor) else one for one in args]
    return list(args) + [None]


class MethodCalls:
    """Interceptor that hands collectives of groups of class ``kind`` to ``on_call`` while entered.

    The methods of a class are wrapped at its first use and stay so: to wrap them anew for each phase
    takes longer than a small phase.
    """

    _entered: "ClassVar[Dict[type, MethodCalls]]" = {}
    _wrapped: ClassVar[Set[type]] = set()

    def __init__(self, groups: GridGroups, on_call: OnCall,
                 kind: type = dist.ProcessGroup) -> None:
        self._groups = groups
        self._on_call = on_call
        self._kind = kind
        self._inside = False
        self._outer: Optional[MethodCalls] = None

    def __enter__(self) -> "MethodCalls":
        if self._kind not in self._wrapped:
            self._wrapped.add(self._kind)
            for name in _METHODS:
                if hasattr(self._kind, name):
                    setattr(self._kind, name, self._wrapper(self._kind, name))
        self._outer = self._entered.get(self._kind)
        self._entered[self._kind] = self
        return self

    def __exit__(self, *_: Any) -> None:
        if self._outer is None:
            del self._entered[self._kind]
        else:
            self._entered[self._kind] = self._outer

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Returns a context whose calls belong to one that is seen elsewhere."""
        before, self._inside = self._inside, True
        try:
            yield
        finally:
            self._inside = before

    @classmethod
    def _wrapper(cls, kind: type, name: str) -> Callable[..., Any]:
        original = getattr(kind, name)

        def wrapper(group: Any, *args: Any, **kwargs: Any) -> Any:
            seen_by = cls._entered.get(kind)
            if seen_by is None or seen_by._inside:
                return original(group, *args, **kwargs)
            with seen_by.unseen():
                return seen_by._on_call(seen_by._call(name, original, group, args, kwargs))

        return wrapper

    def _call(self, name: str, original: Callable[..., Any], group: Any, args: Tuple[Any, ...],
              kwargs: Dict[str, Any]) -> Call:
        op, operator = _METHODS[name]
        options: Optional[Any] = args[-1] if args else None
        tensors = _tensors(args, operator) if op != "barrier" else []
        reduction = getattr(options, "reduceOp", None)
        return Call(op, group, payload_of(operator, tensors),
                    reduction_name(reduction) if reduction is not None else None,
                    int(getattr(options, "rootRank", 0)),
                    lambda: original(group, *args, **kwargs),
                    lambda: parts_of(operator, tensors, group.size()),
                    lambda _: completed_work(self._groups))
