# SPDX-License-Identifier: Apache-2.0
"""The conventions that a loaded function may declare, from ``conventions.json``.

lossgrid itself is built with the same file, and docs/check_your_own_loss.md has a table of it.
"""
from __future__ import annotations

import json
import os
from typing import Any, Dict, Tuple

from lossgrid.errors import BadInput

with open(os.path.join(os.path.dirname(__file__), "conventions.json"), encoding="utf-8") as _file:
    _ALL: Dict[str, Any] = json.load(_file)

#: Words of each argument that is one word, the default first.
WORDS: Dict[str, Tuple[str, ...]] = {key: tuple(words) for key, words in _ALL["words"].items()}
#: Values that a function may return together, in this order.
RETURNS: Tuple[Tuple[str, ...], ...] = tuple(tuple(one) for one in _ALL["returns"])


def require_list(key: str, name: str, value: Any, inputs: str,
                 returned: Tuple[str, ...]) -> Tuple[str, ...]:
    """Returns the words of the list ``key``, after checking that each has the declaration that it
    needs."""
    given = (value,) if isinstance(value, str) else value
    needs = {entry["word"]: entry.get("needs", {}) for entry in _ALL["lists"][key]}
    if not isinstance(given, (tuple, list)) or any(one not in needs for one in given):
        raise BadInput(f"{name}: {key}={value!r} names something else than " +
                       ", ".join(repr(word) for word in needs))
    for one in given:
        if needs[one].get("returns") not in (None, *returned):
            raise BadInput(f"{name}: {key}={one!r} has no meaning without "
                           f"returns={needs[one]['returns']!r}")
        if needs[one].get("inputs") not in (None, inputs):
            raise BadInput(f"{name}: {key}={one!r} has no meaning with inputs={inputs!r}")
        if needs[one].get(key) not in (None, *given):
            raise BadInput(f"{name}: {key}={one!r} has no meaning without {needs[one][key]!r}")
    return tuple(given)
