# SPDX-License-Identifier: Apache-2.0
"""Blocks of a segment for payloads: taken for a call, free again when all have read it."""
from __future__ import annotations

from collections import deque
from typing import Deque, Dict, List, Tuple

_SMALLEST = 256


class Blocks:
    """Blocks of sizes that are powers of two, behind ``begin``."""

    def __init__(self, begin: int) -> None:
        self.end = begin
        self._free: Dict[int, List[int]] = {}

    def take(self, size: int) -> Tuple[int, int]:
        """Returns offset and size of a block of at least ``size`` bytes. The offset of a block that
        is new is the former ``end``."""
        size = max(_SMALLEST, 1 << (size - 1).bit_length())
        free = self._free.get(size)
        if free:
            return free.pop(), size
        offset = self.end
        self.end += size
        return offset, size

    def give(self, block: Tuple[int, int]) -> None:
        self._free.setdefault(block[1], []).append(block[0])


class Used:
    """Blocks in the order of the calls that they were taken for."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._used: Deque[Tuple[int, Tuple[int, int]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._used)

    def add(self, number: int, block: Tuple[int, int]) -> None:
        self._used.append((number, block))

    def release(self, read: int) -> None:
        """Frees the blocks of calls up to ``read``."""
        while self._used and self._used[0][0] <= read:
            self._blocks.give(self._used.popleft()[1])
