# SPDX-License-Identifier: Apache-2.0
"""Plugin of pytest: every trial of a :func:`lossgrid.suite` in a test module is a test item, and so is a
:func:`lossgrid.hunt`.

Active where the package is installed; from a checkout by ``-p lossgrid.pytest`` or
``pytest_plugins = ["lossgrid.pytest"]``.
"""
from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from typing import Any, Dict, List, Optional, Sequence

import pytest

from lossgrid.errors import BadInput
from lossgrid.executable import find_executable
from lossgrid.testing.hunt import Hunt
from lossgrid.testing.hunt_item import HuntItem
from lossgrid.testing.reports import joined
from lossgrid.testing.runs import Trial, TrialRuns, end_all, list_trials
from lossgrid.testing.suite import Suite
from lossgrid.testing.text import describe

_SESSION = pytest.StashKey["_Session"]()


class _Session:
    """Folder of the runs of this session, which test processes of xdist share."""

    def __init__(self, config: pytest.Config) -> None:
        worker = getattr(config, "workerinput", {})
        self.is_worker = "lossgrid_folder" in worker
        self._folder: str = worker.get("lossgrid_folder", "")
        self.shares = worker["workercount"] if self.is_worker else 1
        self.own = int(worker["workerid"][2:]) if self.is_worker else 0  # "gw0"
        self.here = str(config.invocation_params.dir)
        self.suites = 0
        self.written_report = ""
        asked = config.getoption("--lossgrid-executable", None)
        self.asked_executable: str = asked or os.environ.get("LOSSGRID_EXECUTABLE", "")

    @property
    def folder(self) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="lossgrid_")
        return self._folder

    def executable(self) -> str:
        if self.asked_executable:
            found = shutil.which(os.path.join(self.here, self.asked_executable))
            if found is None:
                raise BadInput(f"lossgrid: there is no executable {self.asked_executable} "
                               "(--lossgrid-executable, LOSSGRID_EXECUTABLE)")
            return found
        beside = os.path.join(os.path.dirname(sys.executable), "lossgrid")
        if os.access(beside, os.X_OK):
            return beside
        try:
            return find_executable()
        except FileNotFoundError as error:
            raise BadInput(f"lossgrid: {error} (--lossgrid-executable names one)") from None


class _TrialFailed(Exception):
    """Failure of a trial, of which only the text is printed."""


class _Runs:
    """Runs of one suite object. The first item that runs starts the runs of all selected items."""

    def __init__(self, session: _Session, command: List[str]) -> None:
        self._session, self._command = session, command
        self._folder = os.path.join(session.folder, str(session.suites))
        session.suites += 1
        self._runs: Optional[TrialRuns] = None

    def result(self, item: TrialItem) -> Dict[str, Any]:
        if self._runs is None:
            selected = [one.trial for one in item.session.items
                        if isinstance(one, TrialItem) and one.runs is self]
            self._runs = TrialRuns(self._folder, self._command, self._session.here, selected,
                                   self._session.shares, self._session.own)
        return self._runs.result(item.trial.id)


class TrialItem(pytest.Item):
    """One trial."""

    def __init__(self, *, trial: Trial, runs: _Runs, **others: Any) -> None:
        super().__init__(**others)
        self.trial, self.runs = trial, runs

    def runtest(self) -> None:
        try:
            record = self.runs.result(self)
        except RuntimeError as error:
            raise _TrialFailed(str(error)) from None
        if record["status"] == "skipped":
            pytest.skip(record["reason"])
        if record["status"] != "passed":
            raise _TrialFailed(describe(record))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, _TrialFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> Any:
        return self.path, None, self.name


def _item_names(name: str, suite: Suite, trials: Sequence[Trial]) -> List[str]:
    """Returns test_mine[CASE-GRID], with the implementation if its options are not the given
    options, and with the whole id if the name would not be unique."""
    names = []
    for trial in trials:
        parts = [trial.case, trial.grid]
        if trial.implementation != suite.implementation:
            parts.append(trial.implementation)
        names.append(f"{name}[{'-'.join(parts)}]")
    counts = Counter(names)
    return [one if counts[one] == 1 else f"{name}[{trial.id}]"
            for one, trial in zip(names, trials)]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lossgrid")
    group.addoption("--lossgrid-report", metavar="FILE",
                    help="write one report of all trials here, as lossgrid run --report does")
    group.addoption("--lossgrid-executable", metavar="PATH",
                    help="the executable (default: LOSSGRID_EXECUTABLE, else the one of the "
                         "environment of this Python, else that on PATH)")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SESSION] = _Session(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands the folder of the session to a test process of xdist."""
    node.workerinput["lossgrid_folder"] = node.config.stash[_SESSION].folder


def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> Any:
    if not isinstance(obj, (Suite, Hunt)) or not collector.funcnamefilter(name):
        return None
    session = collector.config.stash[_SESSION]
    try:
        executable = session.executable()
        subcommand = "hunt" if isinstance(obj, Hunt) else "run"
        command = [executable, subcommand, *obj.flags(str(collector.path), session.here)]
        if os.path.dirname(executable) != os.path.dirname(sys.executable):
            command += ["--python", sys.executable]
        if isinstance(obj, Hunt):
            return HuntItem.from_parent(collector, name=name, command=command, folder=session.here)
        trials = list_trials(command, session.here)
    except BadInput as error:
        raise collector.CollectError(f"{name}: {error}") from None
    runs = _Runs(session, command)
    return [TrialItem.from_parent(collector, name=one, trial=trial, runs=runs)
            for one, trial in zip(_item_names(name, obj, trials), trials)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends all runs that still run, after the end of xdist's test processes, and writes the
    report."""
    own = session.config.stash[_SESSION]
    if own.is_worker:
        return
    reports = end_all(own.folder)
    shutil.rmtree(own.folder, ignore_errors=True)
    path = session.config.getoption("--lossgrid-report", None)
    if not path or not reports:
        return
    try:
        _write_whole(os.path.join(own.here, path),
                     joined(reports, ["pytest", *session.config.invocation_params.args]))
    except OSError as error:
        pytest.exit(f"lossgrid: --lossgrid-report {path} cannot be written: {error.strerror}", 4)
    own.written_report = path


def _write_whole(path: str, report: Any) -> None:
    """Writes a report beside ``path`` and renames it, so that no reader sees a part of it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    os.replace(part, path)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[_SESSION].written_report:
        terminalreporter.write_line(f"lossgrid report: {config.stash[_SESSION].written_report}")
