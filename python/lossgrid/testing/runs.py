# SPDX-License-Identifier: Apache-2.0
"""Processes of ``lossgrid run`` that run trials for test items and return their results.

The trials of a suite object are divided into as many shares as there are test processes (one
without xdist). A share is run by one process, which the first test process that needs it starts;
all of them read its results. The share is locked while its process lives, so that everybody sees
the end of a process that died.
"""
from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Dict, List, Sequence

from lossgrid.errors import BadInput
from lossgrid.testing.reports import Json, ReportFollower

_POLL_S = 0.02
_MOST_SECONDS_TO_REPORT = 20.0
_started: List[subprocess.Popen[bytes]] = []  # by this test process


@dataclass(frozen=True)
class Trial:
    """Trial before it runs."""

    id: str
    case: str
    grid: str
    implementation: str


def list_trials(command: Sequence[str], folder: str) -> List[Trial]:
    """Returns the trials of ``command``, a run in ``folder``. Raises BadInput with one line."""
    try:
        ended = subprocess.run([*command, "--list-trials"], cwd=folder, env=_environment(),
                               text=True, stdin=subprocess.DEVNULL, capture_output=True,
                               check=False)
        if ended.returncode == 0 and ended.stdout:
            return [Trial(**json.loads(line)) for line in ended.stdout.splitlines()]
    except OSError as error:
        raise BadInput(f"lossgrid: {command[0]} cannot be run: {error.strerror}") from None
    except (ValueError, TypeError):
        pass
    else:
        last = _last_line(ended.stderr)
        if last.startswith("lossgrid: "):
            raise BadInput(last)
    raise BadInput(f"lossgrid: {command[0]} is not lossgrid, or one without --list-trials")


def shares_of(trials: Sequence[Trial], count: int) -> List[List[Trial]]:
    """Divides trials into at most ``count`` shares. Trials of a case stay together, since its truth
    serves all of them, unless there are fewer cases than shares."""
    cases: Dict[str, int] = {}
    for trial in trials:
        cases.setdefault(trial.case, len(cases))
    shares: List[List[Trial]] = [[] for _ in range(count)]
    for place, trial in enumerate(trials):
        shares[(cases[trial.case] if len(cases) >= count else place) % count].append(trial)
    return [share for share in shares if share]


class Share:
    """Trials that one process runs, with its own folder."""

    def __init__(self, folder: str, command: Sequence[str], cwd: str,
                 trials: Sequence[Trial]) -> None:
        self._folder, self._command, self._cwd, self._trials = folder, command, cwd, trials
        self._results = ReportFollower(self._file("report.json"))

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def start(self) -> None:
        """Starts the process, unless a test process has started it."""
        os.makedirs(self._folder, exist_ok=True)
        lock = os.open(self._file("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(self._file("trials")):
                return  # the process has ended
            with open(self._file("trials"), "w", encoding="utf-8") as file:
                file.writelines(f"{trial.id}\n" for trial in self._trials)
            with open(self._file("output"), "wb") as output:
                process = subprocess.Popen(
                    [*self._command, "--trials", self._file("trials"), "--report",
                     self._file("report.json"), "--quiet"],
                    cwd=self._cwd, env=_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    pass_fds=[lock])  # its holder is alive
            _started.append(process)
            with open(self._file("pid"), "w", encoding="utf-8") as file:
                file.write(str(process.pid))
        except BlockingIOError:
            pass  # it runs
        finally:
            os.close(lock)

    def result(self, trial_id: str) -> Json:
        """Waits for a trial and returns its record. Raises RuntimeError if the process has ended
        without it."""
        while True:
            ended = not is_locked(self._folder)
            self._results.read()
            found = self._results.trial(trial_id)
            if found is not None:
                return found
            if ended:
                raise RuntimeError(f"lossgrid run ended before this trial: "
                                   f"{_last_line(self._output()) or 'it printed nothing'}")
            time.sleep(_POLL_S)

    def _output(self) -> str:
        with open(self._file("output"), encoding="utf-8", errors="replace") as file:
            return file.read()


class TrialRuns:
    """Shares of a suite object, of which this process starts its own first."""

    def __init__(self, folder: str, command: Sequence[str], cwd: str, trials: Sequence[Trial],
                 shares: int, own: int) -> None:
        self._shares = [Share(os.path.join(folder, str(number)), command, cwd, share)
                        for number, share in enumerate(shares_of(trials, shares))]
        self._own = own
        self._share_of: Dict[str, Share] = {
            trial.id: share for share, some in zip(self._shares, shares_of(trials, shares))
            for trial in some}

    def result(self, trial_id: str) -> Json:
        """Returns the record of a trial as soon as it is there."""
        if self._own < len(self._shares):
            self._shares[self._own].start()
        self._share_of[trial_id].start()
        return self._share_of[trial_id].result(trial_id)


def is_locked(folder: str) -> bool:
    """Returns True while the process of the share in ``folder`` lives."""
    try:
        lock = os.open(os.path.join(folder, "lock"), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(lock)


def end_all(folder: str) -> List[Json]:
    """Ends the processes of all shares below ``folder`` and returns their reports."""
    shares = sorted(os.path.dirname(os.path.join(root, "lock"))
                    for root, _, files in os.walk(folder) if "lock" in files)
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        alive = [share for share in shares if is_locked(share)]
        for share in alive:
            _signal(share, signal_number)
        deadline = time.monotonic() + _MOST_SECONDS_TO_REPORT
        while any(is_locked(share) for share in alive) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    while _started:
        _started.pop().wait()
    reports = []
    for share in shares:
        follower = ReportFollower(os.path.join(share, "report.json"))
        report = follower.report()
        follower.close()
        if report is not None:
            reports.append(report)
    return reports


def _signal(share: str, number: int) -> None:
    try:
        with open(os.path.join(share, "pid"), encoding="utf-8") as file:
            os.kill(int(file.read()), number)
    except (OSError, ValueError):
        pass  # the process has just ended, or has not begun


def _environment() -> Dict[str, str]:
    """Returns an environment in which files import the same modules as in this process."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
