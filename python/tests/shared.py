# SPDX-License-Identifier: Apache-2.0
"""One launcher with worlds of 1, 2 and 4 ranks for all tests that leave them whole."""
from __future__ import annotations

import atexit
import os
from typing import Dict, Optional

from fake_host import PACKAGE, Host, World

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "functions")
EXAMPLES = os.path.join(PACKAGE, "examples")
WRONG = os.path.join(EXAMPLES, "wrong")
_host: Optional[Host] = None
_worlds: Dict[int, World] = {}


def host() -> Host:
    """Returns the launcher that has loaded tests/functions/*.py and the examples."""
    global _host
    if _host is None:
        _host = Host()
        atexit.register(_host.close)
        files = [os.path.join(folder, name) for folder in (FOLDER, EXAMPLES, WRONG)
                 for name in sorted(os.listdir(folder)) if name.endswith(".py")]
        _host.load(*files)
    return _host


def world(size: int) -> World:
    if size not in _worlds:
        _worlds[size] = host().world(size)
    return _worlds[size]
