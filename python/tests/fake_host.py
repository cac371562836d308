# SPDX-License-Identifier: Apache-2.0
"""A small host: starts a real launcher and real workers and sends them requests."""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

from lossgrid.messages import Channel, Message

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class HostError(Exception):
    """An answer that is not ok."""

    def __init__(self, answer: Message) -> None:
        super().__init__(f"{answer['kind']}: {answer['error']}\n{answer.get('traceback', '')}")
        self.answer = answer
        self.kind: str = answer["kind"]
        self.line: str = answer["error"]


class Peer:
    """The other end of a socket that answers requests in order."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(60)
        self._channel = Channel(end.detach())
        self._channel._socket.settimeout(60)

    def send(self, op: str, descriptors: Tuple[int, ...] = (), **request: Any) -> None:
        self._channel.send({"op": op, **request}, descriptors)

    def receive(self) -> Message:
        answer, _ = self._channel.receive()
        if answer is None:
            raise EOFError("the process has ended")
        if not answer["ok"]:
            raise HostError(answer)
        return answer

    def ask(self, op: str, descriptors: Tuple[int, ...] = (), **request: Any) -> Message:
        self.send(op, descriptors, **request)
        return self.receive()

    def close(self) -> None:
        self._channel.close()


class Worker(Peer):
    def __init__(self, end: socket.socket, pid: int, rank: int, output: Any) -> None:
        super().__init__(end)
        self.pid = pid
        self.rank = rank
        self._output = output

    def send(self, op: str, descriptors: Tuple[int, ...] = (), **request: Any) -> None:
        if op in ("begin", "forward", "backward"):
            request.setdefault("plan", 1)  # one at a time, unless a test names others
        super().send(op, descriptors, **request)

    def printed(self) -> str:
        self._output.seek(0)
        return str(self._output.read().decode())

    def close(self) -> None:
        super().close()
        self._output.close()


class Host:
    """A launcher, and the workers that it has started."""

    def __init__(self, python: str = sys.executable,
                 environment: Optional[Dict[str, str]] = None) -> None:
        ours, theirs = socket.socketpair()
        variables = {**os.environ, "PYTHONPATH": PACKAGE, **(environment or {})}
        variables.pop("PYTHONUNBUFFERED", None)
        self.process = subprocess.Popen(
            [python, "-m", "lossgrid.worker", str(theirs.fileno())], env=variables,
            pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        theirs.close()
        self.launcher = Peer(ours)
        self.workers: List[Worker] = []

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.launcher.close()
        self.process.wait(30)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def load(self, *files: str) -> Message:
        return self.launcher.ask("load", version=1, files=list(files))

    def fork(self, rank: int, size: int) -> Worker:
        ours, theirs = socket.socketpair()
        output = tempfile.TemporaryFile()
        answer = self.launcher.ask("fork", (theirs.fileno(), output.fileno()), rank=rank,
                                   size=size)
        theirs.close()
        worker = Worker(ours, answer["pid"], rank, output)
        self.workers.append(worker)
        return worker

    def wait(self, worker: Worker) -> Message:
        return self.launcher.ask("wait", pid=worker.pid)

    def world(self, size: int) -> "World":
        workers = [self.fork(rank, size) for rank in range(size)]
        port = workers[0].ask("listen")["port"]
        world = World(workers)
        world.ask("join", host="127.0.0.1", port=port, timeout_s=60)
        return world


class World:
    """The workers of all ranks, asked together."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = list(workers)

    def ask(self, op: str, **request: Any) -> List[Message]:
        for worker in self.workers:
            worker.send(op, **request)
        return self.receive()

    def receive(self) -> List[Message]:
        """Returns all answers; raises the first that is not ok after having read all."""
        answers: List[Message] = []
        first: Optional[Exception] = None
        for worker in self.workers:
            try:
                answers.append(worker.receive())
            except (HostError, EOFError) as error:
                first = first or error
        if first is not None:
            raise first
        return answers
