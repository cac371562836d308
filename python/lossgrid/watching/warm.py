# SPDX-License-Identifier: Apache-2.0
"""A process that has imported torch, and forks launchers for runs that follow each other."""
from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from typing import Any, Dict, List, Optional

from lossgrid.errors import ProtocolError
from lossgrid.launcher import Launcher, import_for_workers
from lossgrid.loading import require_torch
from lossgrid.messages import Channel, Message
from lossgrid.processes import (can_fork, die_with_parent, leave_interrupts_to_host, print_to)
from lossgrid.serving import serve
from lossgrid.watching.sources import Sources


def run_warm(descriptor: int) -> None:
    """Answers requests on the socket ``descriptor`` until it ends."""
    die_with_parent(os.getppid())
    leave_interrupts_to_host()
    print_to(2)
    Warm(Channel(descriptor)).serve()


class Warm:
    """Requests of PROTOCOL.md, section Warm launchers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._launcher: Optional[int] = None

    def serve(self) -> None:
        serve(self._channel, {"warm": self._warm, "launch": self._launch}, tuple)

    def _warm(self, _: Message, __: List[int]) -> Dict[str, Any]:
        require_torch()
        import_for_workers()
        if not can_fork():
            raise ProtocolError("torch has started threads: its process cannot be forked")
        gc.freeze()
        return {"ok": True}

    def _launch(self, _: Message, descriptors: List[int]) -> Dict[str, Any]:
        if len(descriptors) != 2:
            raise ProtocolError(f"launch came with {len(descriptors)} descriptors, wanted 2")
        self._end_launcher()
        socket, sources = descriptors
        parent = os.getpid()
        self._launcher = os.fork()
        if self._launcher == 0:
            try:
                self._channel.close()
                die_with_parent(parent)
                os.setpgid(0, 0)
                # Bytecode is renewed by the second of a file's time: an edit may come sooner.
                sys.dont_write_bytecode = True
                Launcher(Channel(socket), Sources(sources)).serve()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        return {"ok": True, "pid": self._launcher}

    def _end_launcher(self) -> None:
        """Ends the launcher before, with its workers: its host may have been killed."""
        if self._launcher is None:
            return
        os.kill(self._launcher, signal.SIGKILL)  # workers die with it
        os.waitpid(self._launcher, 0)
        self._launcher = None
