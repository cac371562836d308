# SPDX-License-Identifier: Apache-2.0
"""Settings that a launcher and a worker make for their own process."""
from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when ``parent``, its parent, ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)


def leave_interrupts_to_host() -> None:
    """Ignores SIGINT, which a terminal sends to all processes; the host decides which processes
    end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def print_to(descriptor: int) -> None:
    """Sends the output of this process to ``descriptor``, line by line, and closes its input."""
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def can_fork() -> bool:
    """True if a fork of this process is safe: one thread, and no CUDA context."""
    import torch
    return len(os.listdir("/proc/self/task")) == 1 and not torch.cuda.is_initialized()
