# SPDX-License-Identifier: Apache-2.0
"""Text of a trial that did not pass."""
from __future__ import annotations

from typing import Any, Dict, List

from lossgrid.testing.reports import Json

_REASON_WIDTH = 240  # the report has the whole reason


def describe(trial: Json) -> str:
    """Returns the description of a trial that did not pass, as printed by ``lossgrid run``."""
    lines = [f"{trial['status']}: {trial['id']}"]
    if trial.get("reason"):
        lines.append(f"  reason: {_shortened(trial['reason'])}")
    lines += [f"  explanation: {sentence}" for sentence in trial.get("explanation", [])]
    for rank in trial.get("rank_states", []):
        last = rank["message"] if rank.get("detail") else (rank["collectives"] or [""])[-1]
        phase = f" in {rank['phase']}" if rank.get("phase") else ""
        lines.append(f"  rank {rank['rank']} {rank['state']}{phase}" + (f": {last}" if last else ""))
        lines += [f"    {line}" for line in rank.get("detail", "").splitlines()]
    failed = [check for check in trial["checks"] if not check["passed"]]
    if failed:
        lines += _worst_of(max(failed, key=_ratio))
    if trial.get("reproduce"):
        lines.append(f"  reproduce: {trial['reproduce']}")
    return "\n".join(lines)


def _shortened(text: str) -> str:
    return text if len(text) <= _REASON_WIDTH else text[:_REASON_WIDTH - 3] + "..."


def _ratio(check: Dict[str, Any]) -> float:
    return float("inf") if check["ratio"] is None else float(check["ratio"])


def _worst_of(check: Dict[str, Any]) -> List[str]:
    lines = [f"  worst check: {check['name']}, ratio {_ratio(check):.3g}, "
             f"{check['beyond_bound']} of {check['compared']} elements beyond the bound"]
    worst = check["worst"]
    if worst:
        places = [f"{label} {worst[key]}" for key, label in
                  (("rank", "rank"), ("sequence", "sequence"), ("token", "token"),
                   ("vocab_id", "vocab id")) if worst.get(key) is not None]
        got, want = ("not finite" if worst[key] is None else f"{worst[key]:.9g}"
                     for key in ("got", "want"))
        lines.append(f"  worst element: {', '.join(places)}: got {got}, want {want}")
    return lines
