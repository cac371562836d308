# SPDX-License-Identifier: Apache-2.0
"""Wrong collectives: one change of a call (the mutants of PROTOCOL.md)."""
from __future__ import annotations

from typing import Any, List

import torch
import torch.distributed as dist

from lossgrid.groups import Axis, GridGroups
from lossgrid.measure.calls import Call, Part, group_name

_OTHER_REDUCTION = {"sum": "max"}  # all other reductions become a sum


def _copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copies as much of ``source`` as ``target`` holds, and fills the rest with zeros."""
    if target is source:
        return
    flat = source.detach().reshape(-1)[:target.numel()]
    whole = torch.zeros(target.numel(), dtype=target.dtype, device=target.device)
    whole[:flat.numel()] = flat
    target.copy_(whole.view(target.shape))


def _keep_own(call: Call, part: Part) -> None:
    """Writes the outputs as if the rank were alone."""
    rank = call.group.rank()
    if call.op in ("all_gather", "gather"):
        for output in part.outputs:
            _copy(output, part.inputs[0])
    elif call.op in ("reduce_scatter", "scatter"):
        if part.inputs:
            _copy(part.outputs[0], part.inputs[rank])
    else:
        for output, given in zip(part.outputs, part.inputs):
            _copy(output, given)


def _finish(call: Call, parts: List[Part]) -> Any:
    return call.done(parts)


def skip(call: Call) -> Any:
    """Skips the call: its outputs hold this rank's own part."""
    with torch.no_grad():
        parts = call.parts()
        for part in parts:
            _keep_own(call, part)
        return _finish(call, parts)


def other_axis(call: Call, groups: GridGroups) -> Axis:
    """Returns the wrong group for the call."""
    name = group_name(groups, call.group)
    return {"tp": groups.cp, "cp": groups.tp}.get(name, groups.alone)


def _reduction(name: str) -> Any:
    return getattr(dist.ReduceOp, name.upper())


def over_other_group(call: Call, groups: GridGroups) -> Any:
    """Makes the call over another group of the grid. Operations other than reductions, gathers and
    broadcasts are made on this rank alone."""
    other = other_axis(call, groups)
    with torch.no_grad():
        parts = call.parts()
        for part in parts:
            if call.op == "all_reduce":
                _copy(part.outputs[0], part.inputs[0])
                _reduce_over(part.outputs[0], call.reduce or "sum", other.group)
            elif call.op == "broadcast":
                _copy(part.outputs[0], part.inputs[0])
                dist.broadcast(part.outputs[0], other.ranks[call.root % other.size],
                               group=other.group)
            elif call.op == "all_gather":
                given = part.inputs[0].contiguous()
                parts_of = [torch.empty_like(given) for _ in range(other.size)]
                dist.all_gather(parts_of, given, group=other.group)
                for i, output in enumerate(part.outputs):
                    _copy(output, parts_of[i % other.size])
            elif call.op == "reduce_scatter":
                _reduce_scatter(call, part, call.reduce or "sum", other.group)
            else:
                _keep_own(call, part)
        return _finish(call, parts)


def _reduce_over(tensor: torch.Tensor, reduction: str, group: Any) -> None:
    whole = tensor.contiguous()
    dist.all_reduce(whole, op=_reduction(reduction), group=group)
    _copy(tensor, whole)


def _reduce_scatter(call: Call, part: Part, reduction: str, group: Any) -> None:
    whole = torch.cat([one.reshape(-1) for one in part.inputs])
    dist.all_reduce(whole, op=_reduction(reduction), group=group)
    sizes = [one.numel() for one in part.inputs]
    _copy(part.outputs[0], torch.split(whole, sizes)[call.group.rank()])


def applies_wrong_op(call: Call) -> bool:
    return call.reduce is not None


def with_other_reduction(call: Call) -> Any:
    """Makes the call with max in place of sum, and sum in place of other reductions."""
    wrong = _OTHER_REDUCTION.get(call.reduce or "", "sum")
    with torch.no_grad():
        parts = call.parts()
        for part in parts:
            if call.op == "reduce_scatter":
                _reduce_scatter(call, part, wrong, call.group)
            else:
                _copy(part.outputs[0], part.inputs[0])
                _reduce_over(part.outputs[0], wrong, call.group)
        return _finish(call, parts)
