# SPDX-License-Identifier: Apache-2.0
"""Texts of calls, which the members of a group compare before data moves."""
from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import Optional, Tuple

import torch

from lossgrid.shared_group.layout import LONGEST_TEXT

_SHORT = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16",
          torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32", torch.int16: "i16",
          torch.int8: "i8", torch.uint8: "u8"}
_LENGTH = struct.Struct("<I")


def dtype_name(dtype: torch.dtype) -> str:
    return _SHORT.get(dtype, str(dtype).replace("torch.", ""))


def encoded(text: str) -> bytes:
    """Returns the text with its length in front, as a record has it."""
    data = text.encode()
    if len(data) > LONGEST_TEXT:
        digest = hashlib.sha256(data).hexdigest()[:16]
        data = data[:LONGEST_TEXT - 24] + f" ... ({digest})".encode()
    return _LENGTH.pack(len(data)) + data


def decoded(data: bytes) -> str:
    return data[_LENGTH.size:_LENGTH.size + _LENGTH.unpack_from(data)[0]].decode()


@lru_cache(maxsize=4096)
def signature(op: str, dtype: Optional[torch.dtype] = None, counts: Tuple[int, ...] = (),
              reduce: str = "", root: Optional[int] = None) -> bytes:
    """Returns the encoded text of a call, such as "all_reduce sum of 8 f32".

    Args:
        op: name of the collective.
        dtype: that of the payload, None where there is no payload.
        counts: elements of each tensor; none where members may differ in them.
        reduce: word for the reduction, or "".
        root: world rank of the root, where there is one.
    """
    text = f"{op} {reduce}" if reduce else op
    if dtype is not None:
        text += " of " + " ".join([" + ".join(map(str, counts)), dtype_name(dtype)]).strip()
    if root is not None:
        text += f" from {root}"
    return encoded(text)
