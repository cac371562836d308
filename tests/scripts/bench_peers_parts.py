# SPDX-License-Identifier: Apache-2.0
"""What tests of scripts/bench_peers share. The first argument is the executable lossgrid."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
SCRIPT = ROOT / "scripts/bench_peers"
LOSSGRID = os.path.abspath(sys.argv.pop(1))
_spec = importlib.util.spec_from_loader("bench_peers",
                                       SourceFileLoader("bench_peers", str(SCRIPT)))
bench_peers = importlib.util.module_from_spec(_spec)  # which makes `peers` importable
_spec.loader.exec_module(bench_peers)


def lossgrid(*arguments):
    """What it prints; it has to end with 0."""
    ended = subprocess.run([LOSSGRID, *map(str, arguments)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
