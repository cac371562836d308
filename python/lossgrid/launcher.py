# SPDX-License-Identifier: Apache-2.0
"""The launcher: imports torch and the user's files once, and starts workers by fork."""
from __future__ import annotations

import faulthandler
import gc
import os
import platform
import signal
import sys
import time
import traceback
from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence

from lossgrid.cost import cost_message
from lossgrid.declaration import Declaration
from lossgrid.errors import BadInput, ProtocolError
from lossgrid.loading import find, load, require_torch, user_files
from lossgrid.messages import Channel, Message
from lossgrid.problem import Problem, problem_from
from lossgrid.processes import (can_fork, die_with_parent, leave_interrupts_to_host, print_to)
from lossgrid.serving import Operations, serve
from lossgrid.shard import Shard
from lossgrid.watching.sources import Sources

VERSION = 1
_PATIENCE_S = 1.0  # for a worker that is about to end


def run_launcher(descriptor: int) -> None:
    """Answers requests on the socket ``descriptor`` until it ends."""
    die_with_parent(os.getppid())
    leave_interrupts_to_host()
    try:
        os.setpgid(0, 0)
    except PermissionError:
        pass  # this process already leads a session
    print_to(2)  # output of imported files does not belong in the host's output
    Launcher(Channel(descriptor)).serve()


def import_for_workers() -> None:
    """Imports what every worker needs, once and not in each. Needs torch."""
    import lossgrid.rank  # noqa: F401


class Launcher:
    """Requests of PROTOCOL.md, section Launcher."""

    def __init__(self, channel: Channel, sources: Optional[Sources] = None) -> None:
        self._channel = channel
        self._sources = sources
        self._files: List[str] = []
        self._declarations: List[Declaration] = []

    def serve(self) -> None:
        operations: Operations = {
            "load": self._load, "supports": self._supports, "chunks": self._chunks,
            "cost": self._cost,
            "fork": self._fork, "wait": self._wait}
        serve(self._channel, operations, lambda: user_files(self._declarations))

    def _load(self, message: Message, _: List[int]) -> Dict[str, Any]:
        if message.get("version") != VERSION:
            raise ProtocolError(f"protocol version {message.get('version')}, this package has "
                                f"{VERSION}: lossgrid and its Python package differ")
        torch_version = require_torch()
        import_for_workers()
        from lossgrid.shared_group.choice import prepare  # needs torch
        prepare(str(message.get("collectives", "")))
        self._files = [os.path.abspath(path) for path in message["files"]]
        self._declarations = self._loaded(message["files"])
        return {"ok": True, "version": VERSION, "python": platform.python_version(),
                "torch": torch_version,
                "implementations": [one.message() for one in self._declarations]}

    def _loaded(self, files: Sequence[str]) -> List[Declaration]:
        if self._sources is None:
            return load(files)
        self._sources.add(files)
        try:
            declarations = load(files)
        except BaseException as error:
            self._sources.note_failure(error)
            raise
        self._sources.note_modules()
        return declarations

    def _supports(self, message: Message, _: List[int]) -> Dict[str, Any]:
        declared = find(message["implementation"], self._declarations)
        problem = _problem_of(declared, message)
        if declared.supports is None:
            return {"ok": True, "reason": ""}
        reason = declared.supports(problem)
        if reason is None or reason is True:
            reason = ""
        elif reason is False:
            reason = "not supported"
        elif not isinstance(reason, str):
            raise BadInput(f"it returned {reason!r}, wanted the reason why it is skipped, or ''")
        return {"ok": True, "reason": reason}

    def _chunks(self, message: Message, _: List[int]) -> Dict[str, Any]:
        declared = find(message["implementation"], self._declarations)
        return {"ok": True, "chunks": declared.chunks_of(_problem_of(declared, message))}

    def _cost(self, message: Message, _: List[int]) -> Dict[str, Any]:
        declared = find(message["implementation"], self._declarations)
        problem = _problem_of(declared, message)
        if declared.cost is None:
            raise ProtocolError(f"{declared.name} has no cost")
        return {"ok": True, **cost_message(declared.cost(problem))}

    def _fork(self, message: Message, descriptors: List[int]) -> Dict[str, Any]:
        if len(descriptors) != 2:
            raise ProtocolError(f"fork came with {len(descriptors)} descriptors, wanted 2")
        channel, output = descriptors
        rank, size = int(message["rank"]), int(message["size"])
        launcher = os.getpid()
        fork_only = can_fork()
        gc.freeze()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                self._channel.close()
                if fork_only:
                    _run_worker(channel, output, rank, size, launcher, self._declarations,
                                self._sources)
                else:
                    _execute_worker(channel, output, rank, size, launcher, self._files)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        return {"ok": True, "pid": pid}

    def _wait(self, message: Message, _: List[int]) -> Dict[str, Any]:
        pid = int(message["pid"])
        end = time.monotonic() + _PATIENCE_S
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
            while ended == 0 and time.monotonic() < end:
                time.sleep(0.001)
                ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == 0:  # the worker closed its socket and still runs
                os.kill(pid, signal.SIGKILL)
                status = os.waitpid(pid, 0)[1]
        except ChildProcessError:
            raise ProtocolError(f"{pid} is no worker of this launcher") from None
        if os.WIFSIGNALED(status):
            return {"ok": True, "signal": os.WTERMSIG(status)}
        return {"ok": True, "exit": os.WEXITSTATUS(status)}


def _problem_of(declared: Declaration, message: Message) -> Problem:
    """Returns the problem for the user's own functions."""
    options = declared.with_options(message.get("options") or {})
    problem = problem_from(message["problem"])
    shard = Shard(problem.vocab, problem.grid.tp, problem.tp_rank, declared.vocab_split)
    return replace(problem, columns=shard.given, options={**declared.options.defaults, **options})


def _execute_worker(channel: int, output: int, rank: int, size: int, launcher: int,
                    files: Sequence[str]) -> None:
    """Starts a fresh interpreter: threads and CUDA contexts do not survive a fork."""
    os.set_inheritable(channel, True)
    os.set_inheritable(output, True)
    numbers = [str(number) for number in (channel, output, rank, size, launcher)]
    os.execv(sys.executable,
             [sys.executable, "-m", "lossgrid.worker", "--worker", *numbers, *files])


def run_loaded_worker(channel: int, output: int, rank: int, size: int, launcher: int,
                      files: Sequence[str]) -> None:
    """Loads ``files`` and serves as a worker, in an interpreter of its own."""
    require_torch()
    print_to(output)
    _run_worker(channel, output, rank, size, launcher, load(files))


def _run_worker(channel: int, output: int, rank: int, size: int, launcher: int,
                declarations: Sequence[Declaration], sources: Optional[Sources] = None) -> None:
    from lossgrid.rank import Rank  # needs torch
    die_with_parent(launcher)
    leave_interrupts_to_host()
    print_to(output)
    os.close(output)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    Rank(Channel(channel), rank, size, declarations, sources).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # does not wait for threads of gloo and user code
