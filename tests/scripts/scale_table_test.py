#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/scale_table; docs_test.py runs the command that docs/scale.md shows."""

import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "scripts", "scale_table")
LOSSGRID = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/lossgrid")


def run(executable, *options):
    return subprocess.run([sys.executable, SCRIPT, *options, executable], capture_output=True,
                          text=True, check=False)


class ScaleTable(unittest.TestCase):
    def test_every_grid_has_a_row_of_both_implementations(self):
        printed = run(LOSSGRID, "--most-ranks", "64", "--rounds", "2")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        head, _, *rows = printed.stdout.splitlines()
        self.assertEqual(head.count("`fused`"), head.count("`cp_local`"))
        self.assertEqual([row.split()[1:4:2] for row in rows],
                         [["1", "tp1cp1"], ["4", "tp2cp2"], ["16", "tp4cp4"], ["64", "tp8cp8"]])
        numbers = r" \d+\.\d\d \| \d+\.\d\d \| [1-9]\d* \| "
        self.assertRegex(rows[0], rf"^\| 1 \| tp1cp1 \|({numbers}- \|){{2}}$")
        for row in rows[1:]:
            self.assertRegex(row, rf"^\| \d+ \| tp\dcp\d \|({numbers}-?\d+ \|){{2}}$")

    def test_it_ends_as_lossgrid_does(self):
        self.assertEqual(run("/bin/false").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
