# SPDX-License-Identifier: Apache-2.0
"""The recorded list of findings, and whether one is still found.

An entry names a finding and the package (of impls/frameworks/versions.json) that it is in. Then either
    "file": a reproduction, "python": options of its interpreter, "prints": {beginning of a line: its
    rest}; the rest is a text, or a list of numbers that hold to 2 %
or
    "load", "implementation", "case", "grid": a trial, "verdict": that of verdicts.py, "text": a part of
    its reason or explanation.
Files are relative to the list. It may have "seeds", the number of seeds for bounds and suites of lossgrid; "tests", a
file that lists tests of it; "hunt_seconds", the time of scripts/hunts; "fuzz_seconds", that of scripts/fuzz for a target.
"""

import json
import re

from lossgrid.testing.reports import expanded
from scoreboard.verdicts import verdict_of

_KINDS = ({"finding", "package", "file", "prints"},
          {"finding", "package", "load", "implementation", "case", "grid", "verdict"})
_OPTIONAL = {"python", "text"}
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf)\b")
TOLERANCE = 0.02


class BadList(Exception):
    """One line: what is wrong with a list."""


def read(path):
    """Returns the list in a file. Raises BadList."""
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
    except (OSError, ValueError) as error:
        raise BadList(f"{path}: {error}") from error
    entries = known.get("findings") if isinstance(known, dict) else None
    if not isinstance(entries, list) or not (entries or known.get("functions")):
        raise BadList(f"{path}: it has no list \"findings\"")
    for number, entry in enumerate(entries):
        if set(entry) - _OPTIONAL not in _KINDS:
            wanted = " or ".join(", ".join(sorted(kind)) for kind in _KINDS)
            raise BadList(f"{path}: finding {number + 1} has the keys {', '.join(sorted(entry))}; "
                          f"wanted are {wanted}")
        if not entry.get("prints", True):
            raise BadList(f"{path}: finding {number + 1} prints nothing that could be missing")
    return known


def _holds(numbers, wanted):
    found = [float(text) for text in _NUMBER.findall(numbers)]
    return len(found) == len(wanted) and all(
        one == want or abs(one - want) <= TOLERANCE * abs(want)
        for one, want in zip(found, wanted))


def missing_in_output(entry, output):
    """Returns the first line that a reproduction no longer prints, and what it prints instead; None
    where all are there."""
    lines = [line.strip() for line in output.splitlines()]
    for beginning, wanted in entry["prints"].items():
        line = next((line for line in lines if line.startswith(beginning)), None)
        if line is None:
            return f"no line begins with {beginning!r}; the last is {lines[-1] if lines else ''!r}"
        rest = line[len(beginning):].split(" (right:")[0]
        if not (wanted in rest if isinstance(wanted, str) else _holds(rest, wanted)):
            return f"{beginning!r} goes on with {rest!r}, recorded {wanted!r}"
    return None


def missing_in_report(entry, report):
    """Returns what a trial has instead of the recorded verdict; None where it has that."""
    trials = [expanded(trial, report) for trial in report["trials"]]
    own = [trial for trial in trials if trial["implementation"] == entry["implementation"]]
    if len(own) != 1:
        return f"{len(own)} trials of {entry['implementation']}, recorded one"
    verdict = verdict_of(own[0])
    if verdict.kind != entry["verdict"]:
        return f"{verdict.kind} ({verdict.text or 'passed'}), recorded {entry['verdict']}"
    reasons = " ".join([own[0].get("reason", ""), *own[0].get("explanation", [])])
    wanted = entry.get("text", "")
    return None if wanted in reasons else f"its reason lacks {wanted!r}: {reasons}"
