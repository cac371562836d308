# SPDX-License-Identifier: Apache-2.0
"""Collectives as methods of ProcessGroup, for torch whose operators do not name their groups."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from lossgrid.groups import GridGroups
from lossgrid.measure.calls import Call, completed_work, reduction_name
from lossgrid.measure.dispatched import OnCall, _parts, _payload

# Names of methods -> (op, name of the operator with the same tensor arguments).
_METHODS: Dict[str, Tuple[str, str]] = {
    "allreduce": ("all_reduce", "allreduce_"),
    "allreduce_coalesced": ("all_reduce", "allreduce_coalesced_"),
    "allgather": ("all_gather", "allgather_"),
    "_allgather_base": ("all_gather", "_allgather_base_"),
    "allgather_coalesced": ("all_gather", "allgather_coalesced_"),
    "reduce_scatter": ("reduce_scatter", "reduce_scatter_"),
    "_reduce_scatter_base": ("reduce_scatter", "_reduce_scatter_base_"),
    "broadcast": ("broadcast", "broadcast_"),
    "reduce": ("reduce", "reduce_"),
    "gather": ("gather", "gather_"),
    "scatter": ("scatter", "scatter_"),
    "alltoall": ("all_to_all", "alltoall_"),
    "alltoall_base": ("all_to_all", "alltoall_base_"),
    "send": ("send", "send"),
    "recv": ("recv", "recv_"),
    "recv_anysource": ("recv", "recv_any_source_"),
    "barrier": ("barrier", "barrier"),
}


def _tensors(args: Sequence[Any], name: str) -> List[Any]:
    """Returns tensor arguments in the form of the operator, with split sizes where it has them."""
    if name == "alltoall_base":
        return [args[0], args[1], None, args[2], args[3]]
    if name in ("_allgather_base", "_reduce_scatter_base"):
        return [args[0], args[1]]
    if isinstance(args[0], torch.Tensor):  # one tensor instead of a list of one
        return [[one] if isinstance(one, torch.Tensor) else one for one in args]
    return list(args) + [None]


class MethodCalls:
    """Interceptor that hands every collective to ``on_call`` while entered."""

    def __init__(self, groups: GridGroups, on_call: OnCall) -> None:
        self._groups = groups
        self._on_call = on_call
        self._inside = False
        self._originals: Dict[str, Callable[..., Any]] = {}

    def __enter__(self) -> "MethodCalls":
        for name in _METHODS:
            if hasattr(dist.ProcessGroup, name):
                self._originals[name] = getattr(dist.ProcessGroup, name)
                setattr(dist.ProcessGroup, name, self._wrapper(name))
        return self

    def __exit__(self, *_: Any) -> None:
        for name, original in self._originals.items():
            setattr(dist.ProcessGroup, name, original)
        self._originals.clear()

    def _wrapper(self, name: str) -> Callable[..., Any]:
        original = self._originals[name]

        def wrapper(group: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return original(group, *args, **kwargs)
            self._inside = True
            try:
                return self._on_call(self._call(name, original, group, args, kwargs))
            finally:
                self._inside = False

        return wrapper

    def _call(self, name: str, original: Callable[..., Any], group: Any, args: Tuple[Any, ...],
              kwargs: Dict[str, Any]) -> Call:
        op, operator = _METHODS[name]
        options: Optional[Any] = args[-1] if args else None
        tensors = _tensors(args, name) if op != "barrier" else []
        reduction = getattr(options, "reduceOp", None)
        return Call(op, group, _payload(operator, tensors),
                    reduction_name(reduction) if reduction is not None else None,
                    int(getattr(options, "rootRank", 0)),
                    lambda: original(group, *args, **kwargs),
                    lambda: _parts(operator, tensors, group.size()),
                    lambda _: completed_work(self._groups))
