#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of python/tests: python_package_test.py [test_NAME.py...]. Ends with 77 where PyTorch cannot be
imported."""

import os
import sys
import unittest

sys.dont_write_bytecode = True

from with_torch import ROOT, require_torch

require_torch()

TESTS = os.path.join(ROOT, "python/tests")
sys.path[:0] = [os.path.join(ROOT, "python"), TESTS]
os.environ["PYTHONPATH"] = os.path.join(ROOT, "python")  # of workers
names = [os.path.splitext(name)[0] for name in sys.argv[1:]]
unittest.main(module=None, argv=["python/tests", *(names or ["discover", "-s", TESTS])])
