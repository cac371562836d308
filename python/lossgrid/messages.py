# SPDX-License-Identifier: Apache-2.0
"""Length-prefixed JSON over a Unix stream socket, with file descriptors beside it."""
from __future__ import annotations

import array
import json
import math
import os
import socket
import struct
from typing import Any, Dict, List, Optional, Tuple, Union

_LENGTH = struct.Struct("<I")
_LONGEST = 64 << 20
_MOST_DESCRIPTORS = 4
_SPACE = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
_READ = 1 << 16  # bytes; most messages are shorter

_encode = json.JSONEncoder(allow_nan=False).encode
_decode = json.JSONDecoder().decode

Message = Dict[str, Any]


class Channel:
    """One end of a stream of messages."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._received = bytearray()
        self._part = memoryview(bytearray(_READ))

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Message, descriptors: Tuple[int, ...] = ()) -> None:
        """Sends one message; ``descriptors`` travel beside its first byte."""
        body = _encode(message).encode()
        if len(body) > _LONGEST:
            raise ValueError(f"a message of {len(body)} bytes, at most {_LONGEST} are allowed")
        data = _LENGTH.pack(len(body)) + body
        if descriptors:
            rights = array.array("i", descriptors)
            sent = self._socket.sendmsg(
                [data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            data = data[sent:]
        self._socket.sendall(data)

    def receive(self) -> Tuple[Optional[Message], List[int]]:
        """Returns the next message and its descriptors; None at the end of the stream."""
        descriptors: List[int] = []
        while len(self._received) < _LENGTH.size:
            if not self._read(descriptors):
                return None, descriptors
        (length,) = _LENGTH.unpack_from(self._received)
        if length > _LONGEST:
            raise ConnectionError(f"a message of {length} bytes, at most {_LONGEST} are allowed")
        end = _LENGTH.size + length
        while len(self._received) < end:
            if not self._read(descriptors):
                return None, descriptors
        message = _decode(str(self._received[_LENGTH.size:end], "utf-8"))
        del self._received[:end]
        if not isinstance(message, dict):
            raise ConnectionError("a message that is no JSON object")
        return message, descriptors

    def _read(self, descriptors: List[int]) -> bool:
        """Reads what has come, or waits for it. Returns false at the end of the stream."""
        read, ancillary, _, _ = self._socket.recvmsg_into([self._part], _SPACE)
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[:len(payload) // received.itemsize
                                           * received.itemsize])
                descriptors.extend(received)
        self._received += self._part[:read]
        return read > 0


def close_all(descriptors: List[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def number(value: Optional[float]) -> Union[None, float, str]:
    """Returns ``value`` for JSON, which has no NaN and no infinity: "nan", "inf", "-inf"."""
    return value if value is None or math.isfinite(value) else str(value)
