# SPDX-License-Identifier: Apache-2.0
"""Collectives as operators of the dispatcher (c10d and _c10d_functional), for torch that names
their groups there."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from lossgrid.groups import GridGroups
from lossgrid.measure.calls import Call, Part, completed_work, reduction_name
from lossgrid.measure.light_mode import LightMode

OnCall = Callable[[Call], Any]
Tensors = List[torch.Tensor]


def available() -> bool:
    return hasattr(dist.ProcessGroup, "unbox")


def _reduce(boxed: Any) -> Optional[str]:
    return reduction_name(dist.ReduceOp.unbox(boxed))


def _chunks(tensor: torch.Tensor, count: int) -> Tensors:
    """Returns the ``count`` equal parts of ``tensor`` along its first dimension."""
    flat = tensor.view(-1) if tensor.is_contiguous() else tensor
    return list(torch.tensor_split(flat, count))


def _splits(tensor: torch.Tensor, sizes: Sequence[int], count: int) -> Tensors:
    if not sizes:
        return list(torch.tensor_split(tensor, count))
    return list(torch.split(tensor, list(sizes)))


def _flat(lists: Sequence[Sequence[torch.Tensor]]) -> Tensors:
    return [tensor for one in lists for tensor in one]


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


def _payload(name: str, args: Sequence[Any]) -> Tensors:
    if "barrier" in name:
        return []
    if name in ("_allgather_base_", "_reduce_scatter_base_", "alltoall_base_"):
        return [args[1]]
    if name == "reduce_scatter_":
        return _flat(args[1])
    if name in ("allgather_", "allgather_coalesced_", "allgather_into_tensor_coalesced_",
                "reduce_scatter_tensor_coalesced_", "gather_", "alltoall_"):
        return list(args[1])
    return list(args[0])


def _parts(name: str, args: Sequence[Any], size: int) -> List[Part]:
    if "barrier" in name:
        return []
    out, given = args[0], args[1]
    if name in ("allgather_", "allgather_coalesced_", "gather_"):
        outs = list(out) if out else [[] for _ in given]
        return [Part([one], list(many)) for one, many in zip(given, outs)]
    if name == "_allgather_base_":
        return [Part([given], _chunks(out, size))]
    if name == "allgather_into_tensor_coalesced_":
        return [Part([one], _chunks(many, size)) for one, many in zip(given, out)]
    if name in ("reduce_scatter_", "scatter_"):
        ins = list(given) if given else [[] for _ in out]
        return [Part(list(many), [one]) for one, many in zip(out, ins)]
    if name == "_reduce_scatter_base_":
        return [Part(_chunks(given, size), [out])]
    if name == "reduce_scatter_tensor_coalesced_":
        return [Part(_chunks(many, size), [one]) for one, many in zip(out, given)]
    if name == "alltoall_":
        return [Part(list(given), list(out))]
    if name == "alltoall_base_":
        return [Part(_splits(given, args[4], size), _splits(out, args[3], size))]
    return [Part([one], [one]) for one in out]


def _call_of_c10d(name: str, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
                  groups: GridGroups) -> Call:
    op, group_at, reduce_at, root_at = _PLACES[name]
    group = dist.ProcessGroup.unbox(args[group_at])

    def done(_: List[Part]) -> Any:
        work = completed_work(groups).boxed()
        return work if name in _WORK_ALONE else (args[0], work)

    return Call(op, group, _payload(name, args),
                _reduce(args[reduce_at]) if reduce_at is not None else None,
                int(args[root_at]) if root_at is not None else 0,
                lambda: function(*args, **kwargs), lambda: _parts(name, args, group.size()), done)


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
        return Part([one], _chunks(result, size)), result
    if op == "reduce_scatter":
        result = out if out is not None else one.new_empty([one.shape[0] // size] + tail)
        return Part(_chunks(one, size), [result]), result
    result = one.new_empty([sum(args[1])] + tail)
    return Part(_splits(one, args[2], size), _splits(result, args[1], size)), result


def _call_of_functional(name: str, function: Any, args: Sequence[Any],
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
                lambda: function(*args, **kwargs), parts,
                lambda _: list(results) if several else results[0])


class DispatchedCalls(LightMode):
    """Interceptor that hands every collective to ``on_call``, which returns its result."""

    def __init__(self, groups: GridGroups, on_call: OnCall) -> None:
        super().__init__()
        self._groups = groups
        self._on_call = on_call

    def __torch_dispatch__(self, function: Any, types: Any, args: Tuple[Any, ...] = (),
                           kwargs: Optional[Dict[str, Any]] = None) -> Any:
        kwargs = kwargs or {}
        space, name = function._schema.name.split("::")
        if space == "c10d" and name in _PLACES:
            return self._on_call(_call_of_c10d(name, function, args, kwargs, self._groups))
        if space == "_c10d_functional" and name in _FUNCTIONAL:
            return self._on_call(_call_of_functional(name, function, args, kwargs))
        return function(*args, **kwargs)
