#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of python/tests. Ends with 77 where PyTorch cannot be imported."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from peers.torch_python import change_to_torch

change_to_torch()
try:
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped, PyTorch cannot be imported: {error}")
    sys.exit(77)

TESTS = os.path.join(ROOT, "python/tests")
sys.path[:0] = [os.path.join(ROOT, "python"), TESTS]
os.environ["PYTHONPATH"] = os.path.join(ROOT, "python")  # of workers
unittest.main(module=None, argv=["python/tests", "discover", "-s", TESTS])
