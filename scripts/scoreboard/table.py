# SPDX-License-Identifier: Apache-2.0
"""The table of docs/scoreboard.md, made of the reports of `lossgrid run` and `lossgrid bench`."""

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../python"))

from lossgrid.testing.reports import expanded
from scoreboard.verdicts import Verdict, verdict_of

BASELINES = ("fused", "linear_ce")  # lossgrid's own, timed in the same rounds
_LEAST_PEAK_BYTES = 1024  # less is what a measurement that sees no allocation reports
NO_TIME = {"time": None, "memory": None}


class Function:
    """Everything that reports have about one function of a framework."""

    def __init__(self, name):
        self.name = name
        self.verdicts = []  # (dtype, case and grid, Verdict)

    def add(self, trial):
        dtype = "bf16" if "dtype=bf16" in trial["id"] else "f32"
        self.verdicts.append((dtype, trial, verdict_of(trial)))

    def worst(self, dtype=None):
        """Returns the worst verdict; unsupported where nothing ran."""
        those = [verdict for kind, _, verdict in self.verdicts if dtype in (None, kind)]
        return max(those, key=Verdict.rank, default=Verdict("unsupported"))

    def counts(self):
        kinds = [verdict.kind for _, _, verdict in self.verdicts]
        ran = len(kinds) - kinds.count("unsupported")
        return f"{kinds.count('right')} of {ran}"


def packages_of(*reports):
    """Returns the versions that adapters recorded, of the first report that has them."""
    for report in reports:
        for trial in report.get("trials", []):
            if packages := expanded(trial, report)["details"].get("packages"):
                return packages
    return "versions were not recorded"


def functions_of(report):
    """Returns the functions of a report of `lossgrid run`, by name; an option's value is part of
    it."""
    found = {}
    for trial in report["trials"]:
        name = trial["implementation"]
        if name.split(":")[0] not in BASELINES:
            found.setdefault(name, Function(name)).add(expanded(trial, report))
    return found


def _peak(trial):
    return max((one["measured_peak_bytes"] or 0 for one in trial["memory"]
                if one["phase"] in ("forward", "backward")), default=0)


def costs_of(bench, run):
    """Returns {function: {"time": ratio, "memory": ratio}} over lossgrid's own implementation: times
    of a report of `lossgrid bench`, peaks of one of `lossgrid run` on the same cases."""
    costs = {}
    for timing in bench.get("timings", []):
        medians = {row["implementation"]: row["median_ns"] for row in timing["rows"]
                   if row["phase"] == "forward_backward" and row["status"] == "timed"}
        base = next((medians[name] for name in BASELINES if name in medians), None)
        for name, median in medians.items():
            if base and name not in BASELINES:
                costs.setdefault(name, dict(NO_TIME))["time"] = median / base
    peaks = {}
    for trial in run.get("trials", []):
        full = expanded(trial, run)
        if full["status"] in ("passed", "failed"):
            peaks.setdefault(full["id"].split("|")[0], {})[full["implementation"]] = _peak(full)
    for by_name in peaks.values():
        base = next((by_name[name] for name in BASELINES if by_name.get(name)), None)
        for name, peak in by_name.items():
            if base and peak >= _LEAST_PEAK_BYTES and name not in BASELINES:
                costs.setdefault(name, dict(NO_TIME))["memory"] = peak / base
    return costs


def _factor(value):
    if math.isinf(value):
        return "not finite"
    return f"{value:.2g} x" if value < 1000 else f"{value:.0e} x".replace("e+0", "e")


def _cell(verdict):
    if verdict.kind in ("less precise", "wrong") and verdict.factor:
        return f"{'**wrong**' if verdict.kind == 'wrong' else verdict.kind}, {_factor(verdict.factor)}"
    return f"**{verdict.kind}**" if verdict.kind == "raises" else verdict.kind


def _ratio(value):
    return "-" if value is None else f"{value:.2g}"


def _plain(text):
    return text.replace("|", "\\|").replace("\n", " ")


def _line(function, costs):
    cost = costs.get(function.name.split(":")[0], NO_TIME)
    return (f"| `{function.name}` | {_cell(function.worst('f32'))} | {_cell(function.worst('bf16'))} | "
            f"{function.counts()} | {_ratio(cost['time'])} | {_ratio(cost['memory'])} |")


def _worst_lines(function):
    verdict = function.worst()
    if verdict.kind not in ("less precise", "wrong", "raises"):
        return []
    text = f"- `{function.name}`, {_cell(verdict).replace('*', '')}: {_plain(verdict.text)}"
    return [text] + ([f"  `{verdict.reproduce}`"] if verdict.reproduce else [])


def section(framework, report, costs, packages):
    """Returns the lines of one framework."""
    functions = functions_of(report)
    lines = [f"### {framework}", "", f"{packages}.", "",
             "| function | f32 | bf16 | right | time | memory |", "|---|---|---|---|---|---|"]
    lines += [_line(one, costs) for one in functions.values()]
    worst = [line for one in functions.values() for line in _worst_lines(one)]
    return lines + ([""] + worst if worst else [])


def refused(framework, reason):
    """Returns the lines of a framework without a report; it has not run where `reason` is None."""
    line = f"Cannot be run here: {_plain(reason)}." if reason else \
        f"Has not run yet: `scripts/frameworks {framework}`."
    return [f"### {framework}", "", line]
