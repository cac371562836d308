# SPDX-License-Identifier: Apache-2.0
"""Cost model of a function: communication and memory on one rank, declared by its author."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from lossgrid.errors import BadInput
from lossgrid.problem import Problem

Call = Tuple[str, str, int, int]
GROUPS = ("tp", "cp", "dp", "world", "other")
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "reduce",
              "gather", "scatter", "send", "recv", "barrier")


@dataclass(frozen=True)
class Phase:
    """Cost of one phase. A value of None is not declared, and not checked.

    Attributes:
        calls: every collective, as ``(group, operation, calls, bytes)``: the group ("tp", "cp",
            "dp", "world", or "other" for one that the code makes itself), the operation
            ("all_reduce"), the number of its calls, and the payload of all of them together in
            bytes, as sent by this rank. Entries with the same group and operation add up; an empty
            list is a phase without collectives.
        peak_bytes: peak of the memory of tensors in the phase, less that before the phase. Outputs
            and tensors saved for the backward count in the forward, gradients in the backward.
            Checked to 5 %.
    """

    calls: Optional[Sequence[Call]] = None
    peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class Cost:
    """Cost of a function on one rank, by phase. An engine has a forward only."""

    forward: Phase = field(default_factory=Phase)
    backward: Phase = field(default_factory=Phase)


Model = Callable[[Problem], Cost]


def _count(where: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise BadInput(f"{where} = {value!r} is not a whole number from 0 on")
    return value


def _one_of(where: str, value: Any, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise BadInput(f"{where} = {value!r} is not one of {', '.join(allowed)}")
    return str(value)


def _call(where: str, call: Any) -> Dict[str, Any]:
    if not isinstance(call, (tuple, list)) or len(call) != 4:
        raise BadInput(f"{where} = {call!r} is not (group, operation, calls, bytes)")
    return {"group": _one_of(f"{where}: group", call[0], GROUPS),
            "op": _one_of(f"{where}: operation", call[1], OPERATIONS),
            "calls": _count(f"{where}: calls", call[2]),
            "bytes": _count(f"{where}: bytes", call[3])}


def _phase(where: str, phase: Any) -> Dict[str, Any]:
    if not isinstance(phase, Phase):
        raise BadInput(f"{where} = {phase!r} is no lossgrid.Phase")
    calls: Optional[List[Dict[str, Any]]] = None
    if phase.calls is not None:
        if not isinstance(phase.calls, (tuple, list)):
            raise BadInput(f"{where}.calls = {phase.calls!r} is no list")
        calls = [_call(f"{where}.calls[{k}]", call) for k, call in enumerate(phase.calls)]
    peak = None if phase.peak_bytes is None else _count(f"{where}.peak_bytes", phase.peak_bytes)
    return {"calls": calls, "peak_bytes": peak}


def cost_message(cost: Any) -> Dict[str, Any]:
    """Returns COST of the protocol."""
    if not isinstance(cost, Cost):
        raise BadInput(f"it returned {cost!r}, wanted a lossgrid.Cost")
    return {"forward": _phase("forward", cost.forward), "backward": _phase("backward", cost.backward)}
