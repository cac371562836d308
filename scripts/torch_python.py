# SPDX-License-Identifier: Apache-2.0
"""The Python that has PyTorch."""

import importlib.util
import os
import sys

VENV = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../build/venv"))


def change_to_torch():
    """Starts this program again in build/venv, which scripts/setup makes, where this Python has no
    PyTorch."""
    python = os.path.join(VENV, "bin/python")
    if importlib.util.find_spec("torch") is not None or not os.path.exists(python):
        return
    if os.path.realpath(sys.prefix) != VENV:
        os.execv(python, [python, *sys.argv])
