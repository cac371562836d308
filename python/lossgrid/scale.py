# SPDX-License-Identifier: Apache-2.0
"""Factor by which a framework multiplies the loss, as text: "dp*n_mb/cp", "1/(dp*cp)"."""
from __future__ import annotations

import re
from typing import Any, Dict, List

from lossgrid.errors import BadInput

_SYMBOLS = ("dp", "cp", "n_mb")
_MOST = 4  # largest size of an exponent
_Exponents = Dict[str, int]


class _Misfit(Exception):
    """Error of a text that is no factor."""


def scale_text(name: str, value: Any) -> str:
    """Returns the shortest text of the factor ``value`` that the implementation ``name`` declares.

    A factor is made of dp, cp, n_mb and 1 with ``*``, ``/`` and parentheses, from left to right.
    Raises BadInput for other texts.
    """
    try:
        if not isinstance(value, str):
            raise _Misfit
        words = re.findall(r"[A-Za-z0-9_]+|\S", value)
        exponents = _product(words)
        if words or any(abs(exponents[symbol]) > _MOST for symbol in _SYMBOLS):
            raise _Misfit
    except _Misfit:
        raise BadInput(f"{name}: scale={value!r} is not '1' or a product of 'dp', 'cp', 'n_mb' and "
                       f"their inverses, each at most {_MOST} times ('dp*n_mb', '1/dp', "
                       "'cp/(dp*n_mb)')") from None
    above = [symbol for symbol in _SYMBOLS for _ in range(exponents[symbol])]
    below = [symbol for symbol in _SYMBOLS for _ in range(-exponents[symbol])]
    divisor = f"({'*'.join(below)})" if len(below) > 1 else "*".join(below)
    return ("*".join(above) or "1") + (f"/{divisor}" if below else "")


def _product(words: List[str]) -> _Exponents:
    total = _term(words)
    while words and words[0] in "*/":
        sign = 1 if words.pop(0) == "*" else -1
        right = _term(words)
        total = {symbol: total[symbol] + sign * right[symbol] for symbol in _SYMBOLS}
    return total


def _term(words: List[str]) -> _Exponents:
    word = words.pop(0) if words else ""
    if word == "(":
        inner = _product(words)
        if not words or words.pop(0) != ")":
            raise _Misfit
        return inner
    if word != "1" and word not in _SYMBOLS:
        raise _Misfit
    return {symbol: int(symbol == word) for symbol in _SYMBOLS}
