# SPDX-License-Identifier: Apache-2.0
"""Start of the tests in Python that need PyTorch."""

import importlib.util
import os
import sys

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from torch_python import VENV, change_to_torch


def prefer_torch():
    """Continues in an interpreter that has PyTorch where there is one. Returns the interpreter that
    programs under test start: that of tests/warm_python for build/venv, else this one."""
    change_to_torch()
    if os.path.realpath(sys.prefix) == VENV and has_torch():
        return os.path.normpath(os.path.join(ROOT, "tests/warm_python/python3"))
    return sys.executable


def has_torch():
    return importlib.util.find_spec("torch") is not None


def require_torch():
    """As prefer_torch(); ends with 77, skipped, where there is no PyTorch."""
    python = prefer_torch()
    if not has_torch():
        print(f"skipped, {sys.executable} has no PyTorch")
        sys.exit(77)
    return python
