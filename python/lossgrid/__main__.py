# SPDX-License-Identifier: Apache-2.0
"""``python -m lossgrid``: runs the executable with the same arguments, in the same process."""
import os
import sys

from lossgrid.executable import find_executable

try:
    path = find_executable()
    os.execv(path, ["lossgrid", *sys.argv[1:]])
except OSError as error:
    print(f"lossgrid: {error}", file=sys.stderr)
    sys.exit(65)
