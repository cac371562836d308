# SPDX-License-Identifier: Apache-2.0
"""The members of a group: their segments, waits for them, and what is wrong with those that do not
come."""
from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Callable, List, Sequence, Union

from lossgrid.shared_group.errors import CollectiveTimeout, MemberEnded
from lossgrid.shared_group.layout import POSTED, Layout
from lossgrid.shared_group.segment import OwnSegment, PeerSegment
from lossgrid.shared_group.signature import decoded

_SLICE_S = 0.1  # between looks at the processes of members that are missing
_LONGEST_ENCODED = 240


class Members:
    """The ``ranks`` of a group (of the world, in its order), of which this process is ``rank``."""

    def __init__(self, store: Any, rank: int, ranks: Sequence[int], timeout: timedelta,
                 name: Callable[[], str]) -> None:
        self.rank = rank
        self.size = len(ranks)
        self.ranks = tuple(ranks)
        self.timeout = timeout
        self.name = name
        self.layout = Layout(self.size)
        self.own = OwnSegment(self.layout)
        self._last = 0  # the member that came last to the latest call
        self._next_look = 0.0  # at the processes of members
        store.set(f"segment/{rank}", self.own.address())
        # Opened now: a member may end as soon as all others have made the calls that it made.
        self.segments: List[Union[OwnSegment, PeerSegment]] = [
            self.own if member == rank else PeerSegment(self.layout, address)
            for member, address in enumerate(self._addresses(store))]

    def _addresses(self, store: Any) -> List[str]:
        """Returns where the segments of all members are, in the order of their ranks."""
        keys = [f"segment/{member}" for member in range(self.size)]
        try:
            store.wait(keys, self.timeout)
        except RuntimeError:
            missing = ", ".join(str(self.ranks[member]) for member, key in enumerate(keys)
                                if not store.check([key]))
            raise CollectiveTimeout(f"rank {missing} did not join {self.name()} within "
                                    f"{_seconds(self.timeout)}") from None
        return [address.decode() for address in store.multi_get(keys)]

    def wait_for_call(self, number: int, doing: bytes) -> None:
        """Waits until every member has posted call ``number``; ``doing`` is the own call."""
        end = 0.0
        first = self._last
        for step in range(self.size):
            member = (first + step) % self.size
            values = self.segments[member].values
            while values[POSTED] < number:
                self._last = member
                end = end or self.deadline()
                if not self._sleep(member, POSTED, number, end):
                    self.check(end, self._missing(number), self._in_call(number, doing))

    def wait_for_letter(self, source: int, number: int, end: float, doing: str) -> None:
        """Waits a while for letter ``number`` of member ``source``."""
        if not self._sleep(source, self.layout.sent(self.rank), number, end):
            self.check(end, [source], doing)

    def deadline(self) -> float:
        return time.monotonic() + self.timeout.total_seconds()

    def check(self, end: float, missing: Sequence[int], doing: str) -> None:
        """Raises an error if one of the ``missing`` has ended, or the deadline ``end`` passed."""
        for member in missing:
            segment = self.segments[member]
            if isinstance(segment, PeerSegment) and not segment.is_alive():
                raise MemberEnded(f"rank {self.ranks[member]} (process {segment.pid}) has ended; "
                                  f"rank {self.ranks[self.rank]} waits for it {doing}")
        if missing and time.monotonic() >= end:
            who = ", ".join(str(self.ranks[member]) for member in missing)
            raise CollectiveTimeout(f"rank {self.ranks[self.rank]} waited {_seconds(self.timeout)} "
                                    f"for rank {who} {doing}")

    def _sleep(self, member: int, word: int, number: int, end: float) -> bool:
        """Sleeps a while until ``word`` of ``member`` changes. Returns false where it did not, and
        its process has ended or the deadline has passed."""
        segment = self.segments[member]
        seen = segment.values[word]
        if seen >= number:
            return True
        segment.words.sleep(word, seen, max(0.0, min(_SLICE_S, end - time.monotonic())))
        if segment.values[word] != seen or time.monotonic() < self._next_look:
            return True
        self._next_look = time.monotonic() + _SLICE_S / 2
        if time.monotonic() < end and (segment is self.own or segment.is_alive()):
            return True
        return segment.values[word] != seen  # its last act

    def _missing(self, number: int) -> List[int]:
        return [member for member, segment in enumerate(self.segments)
                if segment.values[POSTED] < number]

    def _in_call(self, number: int, doing: bytes) -> str:
        text = f"in call #{number} of {self.name()}, {decoded(doing)}"
        for member in self._missing(number):
            made = self.segments[member].values[POSTED]
            last = f", the last one {decoded(self.posted_text(member, made))}" if made else ""
            text += f"; rank {self.ranks[member]} has made {made} calls{last}"
        return text

    def posted_text(self, member: int, number: int) -> bytes:
        """Returns the encoded text of call ``number`` of ``member``."""
        return self.segments[member].text(self.layout.call(number), _LONGEST_ENCODED)


def _seconds(timeout: timedelta) -> str:
    return f"{timeout.total_seconds():g} s"
