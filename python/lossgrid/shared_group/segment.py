# SPDX-License-Identifier: Apache-2.0
"""The memory of one rank of a group: a memory file that every member maps."""
from __future__ import annotations

import ctypes
import mmap
import os
from typing import Dict, Optional, Tuple

import torch

from lossgrid.shared_group.futex import Words
from lossgrid.shared_group.layout import RECORD, TEXT_AT, Layout, aligned

_MOST_VIEWS = 512
_PAGE = 4096
_PROCESSOR = torch.device("cpu")

_Key = Tuple[int, torch.dtype, torch.Size]


def is_flat(tensor: torch.Tensor) -> bool:
    """True if the elements of ``tensor`` are one piece of memory of this processor."""
    return tensor.device == _PROCESSOR and tensor.is_contiguous() and \
        not (tensor.is_conj() or tensor.is_neg())


class Segment:
    """A mapped segment. Mappings are never closed by hand: tensors may point to them."""

    def __init__(self, layout: Layout, descriptor: int, path: str) -> None:
        self.layout = layout
        self.path = path  # by which this process opens the file again
        self._pinned: Optional[mmap.mmap] = None
        self._map(descriptor)
        self.words = Words(self._memory, layout.words)
        self.values = self.words.values

    def _map(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._views: Dict[_Key, torch.Tensor] = {}

    def view(self, offset: int, dtype: torch.dtype, shape: torch.Size) -> torch.Tensor:
        """Returns the tensor at ``offset``."""
        key = (offset, dtype, shape)
        found = self._views.get(key)
        if found is None:
            found = self._new_view(offset, dtype, shape)
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            self._views[key] = found
        return found

    def _new_view(self, offset: int, dtype: torch.dtype, shape: torch.Size) -> torch.Tensor:
        count = shape.numel()
        if count == 0:
            return torch.empty(shape, dtype=dtype, device="cpu")
        if offset + count * dtype.itemsize > len(self._memory):  # it has grown
            descriptor = os.open(self.path, os.O_RDWR)
            self._map(descriptor)
            os.close(descriptor)
        return torch.frombuffer(self._memory, dtype=dtype, count=count,
                                offset=offset).view(shape)

    def copy_of(self, offset: int, size: int) -> bytes:
        """Returns ``size`` bytes at ``offset``."""
        return self._memory[offset:offset + size]

    def payload(self, record: int) -> int:
        """Returns the offset of the payload of the record at ``record``."""
        return int.from_bytes(self._memory[record:record + 8], "little")

    def text(self, record: int, size: int) -> bytes:
        """Returns ``size`` bytes of the encoded text of a record."""
        return self._memory[record + TEXT_AT:record + TEXT_AT + size]

    def letter(self, record: int) -> Tuple[int, int, bytes]:
        """Returns offset of the payload, tag and text of a record."""
        offset, tag, length, text = RECORD.unpack_from(self._memory, record)
        return offset, tag, text[:length]

    def write(self, record: int, offset: int, tag: int, encoded: bytes) -> None:
        RECORD.pack_into(self._memory, record, offset, tag, len(encoded) - 4, encoded[4:])

    def pin(self) -> None:
        """Locks the pages of the mapping for copies from and to a GPU."""
        if self._pinned is self._memory or not torch.cuda.is_initialized():
            return
        whole = torch.frombuffer(self._memory, dtype=torch.uint8)
        # Pages that cannot be locked are copied all the same, only slower.
        torch.cuda.cudart().cudaHostRegister(whole.data_ptr(), whole.numel(), 0)
        self._pinned = self._memory


class OwnSegment(Segment):
    """The segment that this rank writes."""

    def __init__(self, layout: Layout) -> None:
        self._descriptor = os.memfd_create("lossgrid-group", os.MFD_CLOEXEC)
        os.ftruncate(self._descriptor, aligned(layout.payloads + 16 * _PAGE, _PAGE))
        super().__init__(layout, self._descriptor, "")

    def __del__(self) -> None:
        os.close(self._descriptor)

    def is_alive(self) -> bool:
        return True

    def address(self) -> str:
        """Returns where other processes find the segment."""
        return f"{os.getpid()} {self._descriptor} {os.fstat(self._descriptor).st_ino}"

    def put(self, offset: int, tensor: torch.Tensor) -> None:
        """Copies a tensor to ``offset``."""
        if is_flat(tensor):
            ctypes.memmove(self._address + offset, tensor.data_ptr(),
                           tensor.numel() * tensor.element_size())
        else:
            if tensor.is_cuda:
                self.pin()
            self.view(offset, tensor.dtype, tensor.shape).copy_(tensor)

    def reach(self, end: int) -> None:
        """Makes the segment at least ``end`` bytes long."""
        if end > len(self._memory):
            os.ftruncate(self._descriptor, aligned(max(end, 2 * len(self._memory)), _PAGE))
            self._map(self._descriptor)


class PeerSegment(Segment):
    """The segment of another rank."""

    def __init__(self, layout: Layout, address: str) -> None:
        pid, descriptor, inode = (int(word) for word in address.split())
        self.pid = pid
        path = f"/proc/{pid}/fd/{descriptor}"
        opened = os.open(path, os.O_RDWR)
        try:
            if os.fstat(opened).st_ino != inode:
                raise OSError(f"{path} is not the segment of a rank: the ranks do not see each "
                              "other's processes")
            super().__init__(layout, opened, path)
        finally:
            os.close(opened)

    def is_alive(self) -> bool:
        """Returns false if the process of the rank has ended."""
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False
