# SPDX-License-Identifier: Apache-2.0
"""Words of shared memory on which processes sleep until another process changes them (futex)."""
from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from typing import Dict

_SYSCALLS: Dict[str, int] = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221,
                             "s390x": 238}
_WAIT, _WAKE_OP = 0, 5
_EVERYONE = ctypes.c_void_p(0x7FFFFFFF)
# Adds 1 to the second word and wakes who sleeps on it, unless the word was -1.
_ADD_ONE = 1 << 28 | 1 << 24 | 1 << 12 | 0xFFF
_WORD_BYTES = 4


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def available() -> bool:
    return sys.platform == "linux" and platform.machine() in _SYSCALLS


class Words:
    """The first ``count`` 32-bit words of a mapping. Each word but the last has one writer; the
    last one belongs to futex calls that need a word on which nobody sleeps."""

    def __init__(self, memory: mmap.mmap, count: int) -> None:
        self.values = memoryview(memory)[:count * _WORD_BYTES].cast("I")
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._places = [ctypes.c_void_p(address + index * _WORD_BYTES) for index in range(count)]
        self._nobody = self._places[-1]
        self._number = _SYSCALLS[platform.machine()]
        self._call = ctypes.CDLL(None, use_errno=True).syscall

    def add_one(self, index: int) -> None:
        """Adds 1 behind all writes before, and wakes the processes that sleep on the word."""
        self._call(self._number, self._nobody, _WAKE_OP, 1, _EVERYONE, self._places[index],
                   _ADD_ONE)

    def sleep(self, index: int, seen: int, seconds: float) -> None:
        """Sleeps at most ``seconds`` while the word is ``seen``. May return earlier."""
        whole = int(seconds)
        limit = _Timespec(whole, int((seconds - whole) * 1e9))
        self._call(self._number, self._places[index], _WAIT, ctypes.c_uint32(seen),
                   ctypes.byref(limit), ctypes.c_void_p(0), 0)
