# SPDX-License-Identifier: Apache-2.0
"""Collectives of a phase: recorded in order, with one of them changed on request."""
from __future__ import annotations

from typing import Any, ContextManager, Dict, List, Mapping, Optional

from lossgrid.groups import GridGroups
from lossgrid.measure import changes, dispatched
from lossgrid.measure.calls import Call, SeenCall, group_name, totals
from lossgrid.measure.memory import LiveStorages
from lossgrid.measure.methods import MethodCalls

CALL_CHANGES = ("skip", "wrong_group", "wrong_op", "drop_backward", "unchanged")


class Collectives:
    """Recorder of every collective while ``watch()`` is entered, which may change one
    collective."""

    def __init__(self, groups: GridGroups, phase: str,
                 change: Optional[Mapping[str, Any]]) -> None:
        self._groups = groups
        self._phase = phase
        self._change = change if change and change["kind"] in CALL_CHANGES else None
        self._calls: List[SeenCall] = []
        self.paused = False
        self.applied = False

    def watch(self) -> ContextManager[Any]:
        if dispatched.available():
            return dispatched.DispatchedCalls(self._groups, self._on_call)
        return MethodCalls(self._groups, self._on_call)

    def watch_with(self, storages: LiveStorages) -> "Optional[dispatched.DispatchedCalls]":
        """Returns a watch that also follows ``storages``. None where these need a mode of their
        own: that of a changed call counts what the change makes."""
        if self._change is not None or not dispatched.available():
            return None
        return dispatched.DispatchedCalls(self._groups, self._on_call, storages)

    def message(self) -> Dict[str, Any]:
        return {"collectives": totals(self._calls),
                "calls": [call.message() for call in self._calls]}

    def _on_call(self, call: Call) -> Any:
        if self.paused:
            return call.proceed()
        number = len(self._calls)
        self._calls.append(SeenCall(group_name(self._groups, call.group), call.op, call.reduce,
                                    call.bytes))
        kind = self._kind_for(number)
        if kind is None or (kind == "wrong_op" and not changes.applies_wrong_op(call)):
            return call.proceed()
        self.applied = True
        if kind == "wrong_group":
            return changes.over_other_group(call, self._groups)
        if kind == "wrong_op":
            return changes.with_other_reduction(call)
        return changes.skip(call)

    def _kind_for(self, number: int) -> Optional[str]:
        if self._change is None:
            return None
        kind = str(self._change["kind"])
        if kind == "unchanged":
            return None
        if kind == "drop_backward":
            return "skip" if self._phase == "backward" else None
        if self._change.get("phase", "forward") != self._phase:
            return None
        return kind if int(self._change["call"]) == number else None
