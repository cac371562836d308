# SPDX-License-Identifier: Apache-2.0
"""Reports of runs: a reader that also follows a run, and the join of several into one."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List, Optional, TextIO

Json = Dict[str, Any]

_STATUSES = ("passed", "failed", "skipped", "error", "timeout", "crashed", "out_of_memory",
             "not_run")
_MILDEST_FIRST = (77, 0, 12, 10, 14, 15)  # exit codes of trials; other codes are worse


class ReportFollower:
    """Trials of a report that may still be in progress: from its lines first, then from the whole
    report."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: Optional[TextIO] = None
        self._unfinished = ""  # a line whose end is not written yet
        self._is_whole = False
        self._report: Json = {"trials": [], "shared": {}}
        self._trials: Dict[str, Json] = {}

    def read(self) -> None:
        """Reads the text written since the last call."""
        if self._is_whole:
            return
        if os.path.exists(self._path):  # the report replaces the lines at once
            with open(self._path, encoding="utf-8") as file:
                self._report = json.load(file)
            self._is_whole = True
            self.close()
            for trial in self._report["trials"]:
                self._keep(trial)
            return
        if self._lines is None:
            try:
                self._lines = open(f"{self._path}.partial.jsonl", encoding="utf-8")
            except FileNotFoundError:
                return
        *lines, self._unfinished = (self._unfinished + self._lines.read()).split("\n")
        for line in lines:
            self._take(json.loads(line))

    def trial(self, trial_id: str) -> Optional[Json]:
        """Returns the expanded trial; None while it is missing."""
        return self._trials.get(trial_id)

    def report(self) -> Optional[Json]:
        """Returns everything read so far as a report; None if the run did not begin."""
        self.read()
        return self._report if "run" in self._report else None

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()

    def _take(self, line: Json) -> None:
        if "run" in line:
            self._report.update(line)
        for key, parts in line.get("shared", {}).items():
            self._report["shared"].setdefault(key, []).extend(parts)
        if "trial" in line:
            self._report["trials"].append(line["trial"])
            self._keep(line["trial"])

    def _keep(self, trial: Json) -> None:
        self._trials[trial["id"]] = expanded(trial, self._report)


def expanded(trial: Json, report: Json) -> Json:
    """Returns a trial of ``report`` with its shared parts, and with what it and its checks left
    out."""
    shared, defaults = report["shared"], report["defaults"]

    def part(key: str, value: Any) -> Any:
        return shared[key][value] if key in shared and type(value) is int else value

    full = {key: [part(key, one) for one in value] if isinstance(value, list) else part(key, value)
            for key, value in {**defaults["trial"], **trial}.items()}
    full["checks"] = [{**defaults["checks"], **check} for check in full["checks"]]
    return full


def joined(reports: Iterable[Json], arguments: List[str]) -> Json:
    """Returns one report with the trials of ``reports``, which one build has made. A trial in
    several reports comes from the first report."""
    all_reports = list(reports)
    trials: Dict[str, Json] = {}
    shared: Dict[str, List[Any]] = {}
    for report in all_reports:
        begins = {key: len(shared.get(key, ())) for key in report["shared"]}
        for trial in report["trials"]:
            trials.setdefault(trial["id"], _moved(trial, begins))
        for key, parts in report["shared"].items():
            shared.setdefault(key, []).extend(parts)
    out = dict(all_reports[0])
    out["run"] = _joined_runs([report["run"] for report in all_reports], arguments)
    counts = {status: 0 for status in _STATUSES}
    for trial in trials.values():
        counts[trial["status"]] += 1
    out["summary"] = {"trials": len(trials), **counts}
    out["trials"] = list(trials.values())
    out["tables"] = {
        key: [row for report in all_reports for row in report.get("tables", {}).get(key, ())]
        for key in ("grad_weight_error_by_chunks", "peak_memory", "unjudged_outputs")}
    out.setdefault("timings", [])
    out.setdefault("meter", [])
    out["shared"] = shared
    return out


def _moved(trial: Json, begins: Dict[str, int]) -> Json:
    """Returns ``trial`` with the places of its shared parts moved after the parts of earlier
    reports."""
    def place(key: str, value: Any) -> Any:
        return begins[key] + value if key in begins and type(value) is int else value

    return {key: [place(key, one) for one in value] if isinstance(value, list)
            else place(key, value) for key, value in trial.items()}


def _joined_runs(runs: List[Json], arguments: List[str]) -> Json:
    out = dict(runs[0])
    out.pop("planned", None)
    out["arguments"] = arguments
    out["suite"] = ",".join(dict.fromkeys(run["suite"] for run in runs if run.get("suite")))
    out["started_utc"] = min(run["started_utc"] for run in runs)
    out["ended_utc"] = max(run.get("ended_utc") or run["started_utc"] for run in runs)
    if any(run["status"] != "complete" for run in runs):
        out["status"] = "partial"
    codes = [run.get("exit_code") for run in runs]
    out["exit_code"] = None if None in codes else max(
        codes, key=lambda code: (code not in _MILDEST_FIRST, _MILDEST_FIRST.index(code)
                                 if code in _MILDEST_FIRST else code))
    stages = [run["stages_ns"] for run in runs if run["stages_ns"] is not None]
    if stages:
        out["stages_ns"] = {key: sum(one[key] for one in stages) for key in stages[0]}
    return out
