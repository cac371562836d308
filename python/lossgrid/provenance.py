# SPDX-License-Identifier: Apache-2.0
"""Packages whose code an implementation runs, with their versions, for the report."""
from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Dict

from lossgrid import stubs
from lossgrid.errors import BadInput

_by_file: Dict[str, Dict[str, str]] = {}  # file of the user -> package -> version


def packages(*names: str) -> Dict[str, str]:
    """Names the packages whose code the functions of this file run, and returns their versions.

    Called at the top of the file. The report has them in ``details.packages`` of every trial.

    Raises:
        BadInput: one of them is not installed.
    """
    file = os.path.abspath(sys._getframe(1).f_code.co_filename)
    found: Dict[str, str] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise BadInput(f"{sys.executable} has no package {name}: {sys.executable} -m pip "
                           f"install {name}") from None
    _by_file.setdefault(file, {}).update(found)
    return found


def details_of(file: str) -> Dict[str, str]:
    """Returns texts by name: packages of the functions in ``file``, stand-ins, patches."""
    found = {
        "packages": [f"{name} {version}" for name, version in _by_file.get(file, {}).items()],
        "stubs": stubs.installed(),
        "patched": stubs.patched(),
    }
    return {name: ", ".join(texts) for name, texts in found.items() if texts}
