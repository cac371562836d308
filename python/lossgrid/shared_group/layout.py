# SPDX-License-Identifier: Apache-2.0
"""Places in the segment of a rank: counters, records of calls and letters, payloads."""
from __future__ import annotations

import struct

RECORD = struct.Struct("<QqI236s")  # offset of the payload, tag, length of the text, text
TEXT_AT = 16  # in a record: length and text follow each other
LONGEST_TEXT = 236
CALLS = 512  # that are posted and not finished by all; a power of two
LETTERS = 64  # to one rank that it has not taken
ALIGNMENT = 64  # of payloads

POSTED, FINISHED = 0, 1  # words
_FIRST_SENT = 16
_PAGE = 4096


def aligned(size: int, unit: int = ALIGNMENT) -> int:
    return -(-size // unit) * unit


class Layout:
    """Offsets in the segments of a group of ``size`` ranks."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.words = _FIRST_SENT + 2 * size + 1
        self._calls = aligned(4 * self.words, _PAGE)
        self._letters = self._calls + CALLS * RECORD.size
        self.payloads = aligned(self._letters + size * LETTERS * RECORD.size, _PAGE)

    @staticmethod
    def sent(to: int) -> int:
        """Returns the word that counts letters to rank ``to``."""
        return _FIRST_SENT + to

    def taken(self, source: int) -> int:
        """Returns the word that counts letters of rank ``source`` that were taken."""
        return _FIRST_SENT + self._size + source

    def call(self, number: int) -> int:
        """Returns the offset of the record of call ``number``."""
        return self._calls + number % CALLS * RECORD.size

    def letter(self, to: int, number: int) -> int:
        return self._letters + (to * LETTERS + number % LETTERS) * RECORD.size
