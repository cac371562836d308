# SPDX-License-Identifier: Apache-2.0
"""Errors as answers of the protocol: one line that names the thing, and the whole traceback."""
from __future__ import annotations

import os
import traceback
from types import TracebackType
from typing import Any, Collection, Dict, Optional

_LONGEST_LINE = 600


class BadInput(Exception):
    """A declaration or a returned value that breaks a rule; its text is one line for the user."""


class ProtocolError(Exception):
    """Unknown request."""


def one_line(text: str) -> str:
    """Joins the lines of ``text`` and cuts the result if it is too long to read."""
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ..."


def _where(trace: Optional[TracebackType], files: Collection[str]) -> str:
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if frame.filename in files]
    if not own and not frames:
        return ""
    frame = (own or frames)[-1]
    inside = "" if frame.name == "<module>" else f" in {frame.name}"
    return f" ({os.path.basename(frame.filename)}:{frame.lineno}{inside})"


def describe(error: BaseException, files: Collection[str]) -> str:
    """Returns one line: exception, text, and the last frame that is in one of ``files``."""
    if isinstance(error, SyntaxError) and error.filename:
        return one_line(f"{type(error).__name__}: {error.msg} "
                        f"({os.path.basename(error.filename)}:{error.lineno})")
    text = str(error)
    name = type(error).__name__
    if isinstance(error, SystemExit):
        text = f"the code called exit({error.code!r})"
    return one_line(f"{name}: {text}" if text else name) + _where(error.__traceback__, files)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in str(error) or "CUDA out of memory" in str(error))


def answer_to(error: BaseException, files: Collection[str]) -> Dict[str, Any]:
    """Returns the answer that reports ``error``; ``files`` are the files of the user."""
    if isinstance(error, BadInput):
        kind, line = "bad_input", one_line(str(error))
    elif isinstance(error, ProtocolError):
        kind, line = "protocol", one_line(str(error))
    else:
        kind = "out_of_memory" if _is_out_of_memory(error) else "error"
        line = describe(error, files)
    whole = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {"ok": False, "kind": kind, "error": line, "traceback": whole}
