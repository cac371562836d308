# SPDX-License-Identifier: Apache-2.0
"""The ordered calls of a group: posted at once, compared and read when every member has posted.

A post blocks nobody: it copies the payload into the own segment. A call is complete when all
members have posted it, so it needs nobody's wait but the own one. Calls of a group complete in
their order: a wait for a call completes those before it. Their outputs, however, are written by
their own wait: code that forgets one reads what stood there before, on every run, where other
backends give it the right numbers most of the time. For the same reason a payload that was changed
before its call is complete is an error.
"""
from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, List, Optional, Sequence

import torch

from lossgrid.shared_group.blocks import Blocks, Used
from lossgrid.shared_group.errors import CollectiveMismatch
from lossgrid.shared_group.layout import CALLS, FINISHED, POSTED, aligned
from lossgrid.shared_group.members import Members
from lossgrid.shared_group.segment import is_flat
from lossgrid.shared_group.signature import decoded

# Autograd does not see what a collective writes, nor do modes that watch the user's code.
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
for _name in ("AutogradCPU", "AutogradCUDA", "Python", "PythonTLSSnapshot"):
    _KEYS = _KEYS | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _name))

_SMALL = 1 << 16  # bytes

Read = Callable[[List[int]], None]  # is given the offset of each member's payload


def unseen() -> Any:
    """Returns a context in which autograd and dispatch modes see no operator."""
    return torch._C._ExcludeDispatchKeyGuard(_KEYS)


def bytes_for(count: int, dtype: torch.dtype) -> int:
    """Returns the bytes that a tensor of ``count`` elements takes in a payload."""
    return aligned(count * dtype.itemsize)


def nbytes(tensor: torch.Tensor) -> int:
    return aligned(tensor.numel() * tensor.element_size())


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes, in which a NaN is equal to itself."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


class Call:
    """One posted call."""

    def __init__(self, number: int, signature: bytes, payload: Sequence[torch.Tensor],
                 results: Sequence[torch.Tensor], read: Optional[Read]) -> None:
        self.number = number
        self.signature = signature
        self.payload = payload
        self.results = results
        self.read = read  # None: there is nothing to read
        self.late: List[torch.Tensor] = []  # what the own wait writes into the results
        self.done = False
        self.error: Optional[BaseException] = None


class Rendezvous:
    """The calls of this rank in one group."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._own = members.own
        self.blocks = Blocks(members.layout.payloads)
        self._used = Used(self.blocks)
        self._pending: Deque[Call] = deque()
        self.posting = threading.Lock()
        self._completing = threading.Lock()
        self.posted = 0

    def post(self, signature: bytes, payload: Sequence[torch.Tensor],
             results: Sequence[torch.Tensor], read: Optional[Read]) -> Call:
        """Posts a call; ``read`` writes ``results`` when all members have posted it."""
        with self.posting:
            call = Call(self._post(signature, payload), signature, payload, results, read)
            self._pending.append(call)
            if self._members.size == 1:
                self._own.values[POSTED] = call.number  # nobody sleeps on it
            else:
                self._own.words.add_one(POSTED)
            return call

    def post_and_complete(self, signature: bytes, payload: Sequence[torch.Tensor],
                          results: Sequence[torch.Tensor], read: Optional[Read]) -> None:
        """Makes a call that is waited for at once: as ``complete`` of what ``post`` returns."""
        with self._completing:  # so that no thread completes a later call before this one
            number = self._post_next(signature, payload)
            if number is not None:
                return self._read_now(number, signature, read)
        self.complete(self.post(signature, payload, results, read))

    def _post_next(self, signature: bytes, payload: Sequence[torch.Tensor]) -> Optional[int]:
        """Posts a call and returns its number, unless others are pending."""
        with self.posting:
            if self._pending:
                return None
            number = self._post(signature, payload)
            self._own.words.add_one(POSTED)
            return number

    def _read_now(self, number: int, signature: bytes, read: Optional[Read]) -> None:
        members = self._members
        members.wait_for_call(number, signature)
        try:
            self._compare(number, signature)
            if read is not None:
                record = members.layout.call(number)
                with unseen():
                    read([segment.payload(record) for segment in members.segments])
        finally:
            self._own.values[FINISHED] = number

    def _post(self, signature: bytes, payload: Sequence[torch.Tensor]) -> int:
        """Writes a call that is not counted yet, and returns its number."""
        number = self.posted + 1
        if self._used or number > CALLS:
            self._release(number)
        with unseen():
            offset = self._put(number, payload) if payload else 0
        self._own.write(self._members.layout.call(number), offset, 0, signature)
        self.posted = number
        return number

    def _put(self, number: int, payload: Sequence[torch.Tensor]) -> int:
        block = self.write_block(payload)
        self._used.add(number, block)
        return block[0]

    def write_block(self, payload: Sequence[torch.Tensor]) -> "tuple[int, int]":
        """Copies ``payload`` into a block of the own segment."""
        sizes = [nbytes(tensor) for tensor in payload]
        block = self.blocks.take(sum(sizes))
        self._own.reach(block[0] + block[1])
        at = block[0]
        for tensor, size in zip(payload, sizes):
            self._own.put(at, tensor)
            at += size
        return block

    def _release(self, number: int) -> None:
        """Frees blocks that all have read, and waits where too many calls are not finished."""
        finished = self._finished()
        if number - finished > CALLS:
            for call in list(self._pending):
                if call.number <= number - CALLS:
                    self.complete(call)
            while number - finished > CALLS:
                time.sleep(0.0005)
                finished = self._finished()
        self._used.release(finished)

    def _finished(self) -> int:
        """Returns the number of calls that all members have finished."""
        return min([segment.values[FINISHED] for segment in self._members.segments])

    def is_complete(self, call: Call) -> bool:
        """Returns true if the call is done; completes it where nothing is missing."""
        if not call.done and all(segment.values[POSTED] >= call.number
                                 for segment in self._members.segments):
            try:
                self.complete(call)
            except RuntimeError:
                pass  # of its wait
        return call.done

    def complete(self, call: Call) -> None:
        """Waits for all members, and completes the call and those before it."""
        if not call.done or call.late:
            with self._completing:
                while not call.done:
                    self._complete_first(call)
                with unseen():
                    for result, late in zip(call.results, call.late):
                        result.copy_(late)
                call.late, call.results = [], []
        if call.error is not None:
            raise call.error

    def _complete_first(self, awaited: Call) -> None:
        call = self._pending[0]
        members = self._members
        members.wait_for_call(call.number, call.signature)
        try:
            self._compare(call.number, call.signature)
            record = members.layout.call(call.number)
            with unseen():
                self._require_unchanged(call, self._own.payload(record))
                if call.read is not None:
                    before = [] if call is awaited else [one.clone() for one in call.results]
                    call.read([segment.payload(record) for segment in members.segments])
                    for result, old in zip(call.results, before):
                        call.late.append(result.clone())
                        result.copy_(old)
        except Exception as error:
            call.error = error
        self._pending.popleft()
        self._own.values[FINISHED] = call.number
        call.read, call.payload = None, []  # they hold tensors
        call.done = True

    def _require_unchanged(self, call: Call, at: int) -> None:
        """Raises RuntimeError where a tensor no longer has the bits that were posted."""
        for tensor in call.payload:
            if tensor.numel() > 0:
                if not self._has_bits_of(at, tensor):
                    raise RuntimeError(f"an input of {decoded(call.signature)} of "
                                       f"{self._members.name()} was changed before the call was "
                                       "complete: its handle was not waited for")
            at += nbytes(tensor)

    def _has_bits_of(self, at: int, tensor: torch.Tensor) -> bool:
        """True if the own segment has the bits of ``tensor`` at ``at``."""
        size = tensor.numel() * tensor.element_size()
        if size <= _SMALL and is_flat(tensor):  # a tenth of the time that operators take
            return self._own.copy_of(at, size) == ctypes.string_at(tensor.data_ptr(), size)
        posted = self._own.view(at, tensor.dtype, tensor.shape)
        return torch.equal(_bits(posted), _bits(tensor))

    def _compare(self, number: int, mine: bytes) -> None:
        """Raises CollectiveMismatch unless all members made the same call."""
        record, size = self._members.layout.call(number), len(mine)
        for segment in self._members.segments:
            if segment is not self._own and segment.text(record, size) != mine:
                self._raise_mismatch(number)

    def _raise_mismatch(self, number: int) -> None:
        members = self._members
        texts = [decoded(members.posted_text(member, number)) for member in range(members.size)]
        other = next(member for member in range(members.size) if texts[member] != texts[0])
        raise CollectiveMismatch(
            f"ranks disagree in call #{number} of {members.name()}: rank {members.ranks[0]} calls "
            f"{texts[0]}, rank {members.ranks[other]} calls {texts[other]}")
