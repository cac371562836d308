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

Message = Dict[str, Any]


class Channel:
    """One end of a stream of messages."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._received = b""
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
        head = self._exactly(_LENGTH.size, descriptors)
        if head is None:
            return None, descriptors
        (length,) = _LENGTH.unpack(head)
        if length > _LONGEST:
            raise ConnectionError(f"a message of {length} bytes, at most {_LONGEST} are allowed")
        body = self._exactly(length, descriptors)
        if body is None:
            return None, descriptors
        message = json.loads(body)
        if not isinstance(message, dict):
            raise ConnectionError("a message that is no JSON object")
        return message, descriptors

    def _exactly(self, count: int, descriptors: List[int]) -> Optional[bytes]:
        """Returns the next ``count`` bytes. May read more: the other side asks one thing at a
        time."""
        data = bytearray(self._received)
        while len(data) < count:
            read, ancillary, _, _ = self._socket.recvmsg_into([self._part], _SPACE)
            for level, kind, payload in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    received = array.array("i")
                    received.frombytes(payload[:len(payload) // received.itemsize
                                               * received.itemsize])
                    descriptors.extend(received)
            if read == 0:
                return None
            data += self._part[:read]
        self._received = bytes(data[count:])
        return bytes(data[:count])


def close_all(descriptors: List[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def number(value: Optional[float]) -> Union[None, float, str]:
    """Returns ``value`` for JSON, which has no NaN and no infinity: "nan", "inf", "-inf"."""
    return value if value is None or math.isfinite(value) else str(value)
