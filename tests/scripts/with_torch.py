# SPDX-License-Identifier: Apache-2.0
"""Start of the tests in Python that need PyTorch."""

import os
import sys

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from torch_python import change_to_torch


def require_torch():
    """Continues in an interpreter that has PyTorch; ends with 77, skipped, where there is none."""
    change_to_torch()
    try:
        import torch  # noqa: F401
    except ImportError as error:
        print(f"skipped, PyTorch cannot be imported: {error}")
        sys.exit(77)
