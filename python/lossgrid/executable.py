# SPDX-License-Identifier: Apache-2.0
"""Executable that belongs to this package, in the same installation or source tree."""
from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_executable() -> str:
    """Returns the path of the nearest bin/lossgrid above this package, of build/release in a source
    tree, else of the executable on PATH. Raises FileNotFoundError."""
    package = Path(__file__).resolve().parent
    for folder in package.parents:
        for place in ("bin/lossgrid", "build/release/lossgrid"):
            if os.access(folder / place, os.X_OK):
                return str(folder / place)
    found = shutil.which("lossgrid")
    if found is None:
        raise FileNotFoundError(f"no executable of lossgrid: there is no bin/lossgrid above "
                                f"{package}, and none on PATH")
    return found
