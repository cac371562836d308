# SPDX-License-Identifier: Apache-2.0
"""Letters from one rank to another: send and recv with tags.

A sent letter lies in the segment of its sender until its receiver takes it. Letters of one sender
and tag are received in the order in which they were sent.
"""
from __future__ import annotations

import threading
import time
from typing import Dict, List, Optional

import torch

from lossgrid.shared_group.blocks import Used
from lossgrid.shared_group.layout import LETTERS
from lossgrid.shared_group.members import Members
from lossgrid.shared_group.rendezvous import Rendezvous, unseen
from lossgrid.shared_group.signature import dtype_name, encoded

_POLL_S = 0.0005


class Receipt:
    """One recv: the tensor that a letter is to be written to."""

    def __init__(self, tensor: torch.Tensor, source: Optional[int], tag: int) -> None:
        self.tensor = tensor
        self.source = source  # None: any; then the rank that it came from
        self.tag = tag
        self.done = False
        self.error: Optional[BaseException] = None

    def takes(self, source: int, tag: int) -> bool:
        return self.tag == tag and self.source in (None, source)


def _text(tensor: torch.Tensor) -> str:
    return f"{tensor.numel()} {dtype_name(tensor.dtype)}"


class _Letter:
    """One letter that was taken."""

    def __init__(self, source: int, tag: int, text: str, data: torch.Tensor) -> None:
        self.source = source
        self.tag = tag
        self.text = text
        self.data = data  # bytes; of a letter that is kept, a copy


class Mail:
    """Letters of this rank in one group."""

    def __init__(self, members: Members, rendezvous: Rendezvous) -> None:
        self._members = members
        self._rendezvous = rendezvous
        self._used: Dict[int, Used] = {}
        self._sent = [0] * members.size
        self._expected: List[Receipt] = []
        self._kept: List[_Letter] = []
        self._lock = threading.Lock()
        self._sending = threading.Lock()

    def send(self, tensor: torch.Tensor, to: int, tag: int) -> None:
        """Sends a letter. Waits only while the receiver has many that it did not take."""
        members = self._members
        with self._sending:
            number = self._sent[to] + 1
            taken = members.layout.taken(members.rank)
            receiver = members.segments[to]
            used = self._used.setdefault(to, Used(self._rendezvous.blocks))
            end = members.deadline()
            while number - receiver.values[taken] > LETTERS:
                for source in range(members.size):  # it may wait for the same
                    self._take_all(source)
                time.sleep(_POLL_S)
                members.check(end, [to], f"in send of {_text(tensor)} to it, which has not taken "
                                         f"{LETTERS} letters before")
            with self._rendezvous.posting, unseen():
                used.release(receiver.values[taken])
                block = self._rendezvous.write_block([tensor])
                used.add(number, block)
            members.own.write(members.layout.letter(to, number), block[0], tag,
                              encoded(f"{_text(tensor)} {tensor.numel() * tensor.element_size()}"))
            self._sent[to] = number
            members.own.words.add_one(members.layout.sent(to))

    def receive(self, tensor: torch.Tensor, source: Optional[int], tag: int) -> Receipt:
        """Expects a letter, which ``complete`` waits for."""
        receipt = Receipt(tensor, source, tag)
        with self._lock:
            for letter in self._kept:
                if receipt.takes(letter.source, letter.tag):
                    self._kept.remove(letter)
                    self._deliver(receipt, letter)
                    return receipt
            self._expected.append(receipt)
        return receipt

    def is_complete(self, receipt: Receipt) -> bool:
        """Returns true if the letter is there, after having taken all that came."""
        if not receipt.done:
            for source in self._sources(receipt):
                self._take_all(source)
        return receipt.done

    def complete(self, receipt: Receipt) -> None:
        """Waits for the letter."""
        members = self._members
        end = members.deadline()
        doing = f"in recv of {_text(receipt.tensor)}"
        while not self.is_complete(receipt):
            if receipt.source is None:
                time.sleep(_POLL_S)
                if time.monotonic() >= end:
                    members.check(end, self._sources(receipt), doing)
            else:
                number = members.own.values[members.layout.taken(receipt.source)] + 1
                members.wait_for_letter(receipt.source, number, end, doing)
        if receipt.error is not None:
            raise receipt.error

    def _sources(self, receipt: Receipt) -> List[int]:
        return list(range(self._members.size)) if receipt.source is None else [receipt.source]

    def _take_all(self, source: int) -> None:
        """Takes the letters of ``source`` that have come."""
        members = self._members
        segment = members.segments[source]
        taken = members.layout.taken(source)
        with self._lock:
            number = members.own.values[taken]
            while segment.values[members.layout.sent(members.rank)] > number:
                number += 1
                self._take(source, number)
                members.own.values[taken] = number

    def _take(self, source: int, number: int) -> None:
        members = self._members
        segment = members.segments[source]
        offset, tag, data = segment.letter(members.layout.letter(members.rank, number))
        text, size = data.decode().rsplit(" ", 1)
        letter = _Letter(source, tag, text,
                         segment.view(offset, torch.uint8, torch.Size([int(size)])))
        for receipt in self._expected:
            if receipt.takes(source, tag):
                self._expected.remove(receipt)
                self._deliver(receipt, letter)
                return
        with unseen():
            letter.data = letter.data.clone()
        self._kept.append(letter)

    def _deliver(self, receipt: Receipt, letter: _Letter) -> None:
        receipt.source = letter.source
        tensor, ranks = receipt.tensor, self._members.ranks
        if _text(tensor) != letter.text:
            receipt.error = RuntimeError(
                f"rank {ranks[letter.source]} sends {letter.text}, rank "
                f"{ranks[self._members.rank]} receives {_text(tensor)}")
        elif tensor.numel() > 0:
            with unseen():
                tensor.copy_(letter.data.view(tensor.dtype).view(tensor.shape))
        receipt.done = True
