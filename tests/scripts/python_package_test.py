#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of python/tests. Ends with 77 where PyTorch cannot be imported."""

import os
import sys
import unittest

sys.dont_write_bytecode = True

from with_torch import ROOT, require_torch

require_torch()

TESTS = os.path.join(ROOT, "python/tests")
sys.path[:0] = [os.path.join(ROOT, "python"), TESTS]
os.environ["PYTHONPATH"] = os.path.join(ROOT, "python")  # of workers
unittest.main(module=None, argv=["python/tests", "discover", "-s", TESTS])
