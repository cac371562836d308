# SPDX-License-Identifier: Apache-2.0
"""Collectives as operators of the dispatcher (c10d and _c10d_functional), for torch that names
their groups there."""
from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from lossgrid import shared_group
from lossgrid.groups import GridGroups
from lossgrid.measure.calls import Call, Part, completed_work, reduction_name
from lossgrid.measure.light_mode import LightMode
from lossgrid.measure.memory import LiveStorages
from lossgrid.measure.methods import MethodCalls
from lossgrid.measure.operators import OnCall, Tensors, chunks_of, parts_of, payload_of, splits_of


Proceed = Callable[[], Any]


def available() -> bool:
    return hasattr(dist.ProcessGroup, "unbox")


def _reduce(boxed: Any) -> Optional[str]:
    return reduction_name(dist.ReduceOp.unbox(boxed))


# name -> (op, index of the group, index of the reduction, index of the root)
_PLACES: Dict[str, Tuple[str, int, Optional[int], Optional[int]]] = {
    "allreduce_": ("all_reduce", 1, 2, None),
    "allreduce_coalesced_": ("all_reduce", 1, 2, None),
    "allgather_": ("all_gather", 2, None, None),
    "_allgather_base_": ("all_gather", 2, None, None),
    "allgather_coalesced_": ("all_gather", 2, None, None),
    "allgather_into_tensor_coalesced_": ("all_gather", 2, None, None),
    "reduce_scatter_": ("reduce_scatter", 2, 3, None),
    "_reduce_scatter_base_": ("reduce_scatter", 2, 3, None),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 2, 3, None),
    "broadcast_": ("broadcast", 1, None, 2),
    "reduce_": ("reduce", 1, 2, 3),
    "gather_": ("gather", 2, None, 3),
    "scatter_": ("scatter", 2, None, 3),
    "alltoall_": ("all_to_all", 2, None, None),
    "alltoall_base_": ("all_to_all", 2, None, None),
    "send": ("send", 1, None, None),
    "recv_": ("recv", 1, None, None),
    "recv_any_source_": ("recv", 1, None, None),
    "barrier": ("barrier", 1, None, None),
    "monitored_barrier_": ("barrier", 1, None, None),
}
# Operators that return only a Work; other operators return the written tensors and a Work.
_WORK_ALONE = ("allreduce_coalesced_", "allgather_coalesced_", "allgather_into_tensor_coalesced_",
               "reduce_scatter_tensor_coalesced_", "reduce_", "gather_", "alltoall_base_", "send",
               "recv_", "recv_any_source_", "barrier", "monitored_barrier_")


def _call_of_c10d(name: str, proceed: Proceed, args: Sequence[Any], groups: GridGroups) -> Call:
    op, group_at, reduce_at, root_at = _PLACES[name]
    group = dist.ProcessGroup.unbox(args[group_at])

    def done(_: List[Part]) -> Any:
        work = completed_work(groups).boxed()
        return work if name in _WORK_ALONE else (args[0], work)

    return Call(op, group, payload_of(name, args),
                _reduce(args[reduce_at]) if reduce_at is not None else None,
                int(args[root_at]) if root_at is not None else 0,
                proceed, lambda: parts_of(name, args, group.size()), done)


# name -> (op, index of the reduction)
_FUNCTIONAL: Dict[str, Tuple[str, Optional[int]]] = {
    "all_reduce": ("all_reduce", 1), "all_reduce_": ("all_reduce", 1),
    "all_reduce_coalesced": ("all_reduce", 1), "all_reduce_coalesced_": ("all_reduce", 1),
    "all_gather_into_tensor": ("all_gather", None),
    "all_gather_into_tensor_out": ("all_gather", None),
    "all_gather_into_tensor_coalesced": ("all_gather", None),
    "reduce_scatter_tensor": ("reduce_scatter", 1),
    "reduce_scatter_tensor_out": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1),
    "all_to_all_single": ("all_to_all", None),
    "broadcast": ("broadcast", None), "broadcast_": ("broadcast", None),
}


def _functional_part(name: str, op: str, one: torch.Tensor, args: Sequence[Any], size: int,
                     out: Optional[torch.Tensor]) -> Tuple[Part, torch.Tensor]:
    """Returns a part with a new output, and the tensor that the call returns."""
    if op in ("all_reduce", "broadcast"):
        result = one if name.endswith("_") else torch.empty_like(one)
        return Part([one], [result]), result
    tail = list(one.shape[1:])
    if op == "all_gather":
        result = out if out is not None else one.new_empty([one.shape[0] * size] + tail)
        return Part([one], chunks_of(result, size)), result
    if op == "reduce_scatter":
        result = out if out is not None else one.new_empty([one.shape[0] // size] + tail)
        return Part(chunks_of(one, size), [result]), result
    result = one.new_empty([sum(args[1])] + tail)
    return Part(splits_of(one, args[2], size), splits_of(result, args[1], size)), result


def _call_of_functional(name: str, proceed: Proceed, args: Sequence[Any],
                        kwargs: Mapping[str, Any]) -> Call:
    from torch.distributed import distributed_c10d
    op, reduce_at = _FUNCTIONAL[name]
    group = distributed_c10d._resolve_process_group(args[-1])
    several = isinstance(args[0], (list, tuple))
    given = list(args[0]) if several else [args[0]]
    results: Tensors = []

    def parts() -> List[Part]:
        made = [_functional_part(name, op, one, args, group.size(), kwargs.get("out"))
                for one in given]
        results.extend(result for _, result in made)
        return [part for part, _ in made]

    return Call(op, group, given,
                reduction_name(args[reduce_at]) if reduce_at is not None else None,
                int(args[1]) if op == "broadcast" else 0,
                proceed, parts,
                lambda _: list(results) if several else results[0])


_COLLECTIVES: Dict[str, Mapping[str, Any]] = {"c10d": _PLACES, "_c10d_functional": _FUNCTIONAL}


# Operators that were seen, by id: their hash is made in Python. They are held, so that an id stays.
_seen: Dict[int, Tuple[str, str, Any]] = {}


def _collective(function: Any) -> Tuple[str, str, Any]:
    """Returns namespace and name of an operator that is a collective, else empty texts; and the
    operator."""
    space, name = function._schema.name.split("::")
    if name not in _COLLECTIVES.get(space, {}):
        space = name = ""
    return _seen.setdefault(id(function), (space, name, function))


class DispatchedCalls(LightMode):
    """Interceptor that hands every collective to ``on_call``, which returns its result.

    With ``storages`` it also does what ``MemoryMode`` does: each mode costs time at each operator.
    """

    def __init__(self, groups: GridGroups, on_call: OnCall,
                 storages: Optional[LiveStorages] = None) -> None:
        super().__init__()
        self._groups = groups
        self._on_call = on_call
        self._storages = storages
        self.paused = False
        self._shared: Optional[MethodCalls] = None  # of groups that make no operators

    def __enter__(self) -> Any:
        if shared_group.available():
            from lossgrid.shared_group.process_group import SharedGroup  # needs this torch
            self._shared = MethodCalls(self._groups, self._on_call, SharedGroup)
            self._shared.__enter__()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        if self._shared is not None:
            self._shared.__exit__(*raised)

    def __torch_dispatch__(self, function: Any, types: Any, args: Tuple[Any, ...] = (),
                           kwargs: Optional[Dict[str, Any]] = None) -> Any:
        kwargs = kwargs or {}
        space, name, _ = _seen.get(id(function)) or _collective(function)
        if not space:
            return self._proceed(function, args, kwargs)

        def proceed() -> Any:
            return self._proceed(function, args, kwargs)

        if space == "c10d":
            return self._on_call(_call_of_c10d(name, proceed, args, self._groups))
        with self._shared.unseen() if self._shared else nullcontext():
            return self._on_call(_call_of_functional(name, proceed, args, kwargs))

    def _proceed(self, function: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        if self._storages is None or self.paused:
            return function(*args, **kwargs)
        return self._storages.follow(function, args, kwargs)
