#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/plan_table; docs_test.py compares its output with docs/planning.md."""

import json
import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "scripts", "plan_table")
LOSSGRID = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/lossgrid")


def run(executable):
    return subprocess.run([sys.executable, SCRIPT, executable], capture_output=True, text=True,
                          check=False)


class PlanTable(unittest.TestCase):
    def test_every_model_has_a_row_of_lengths(self):
        with open(os.path.join(ROOT, "cases", "models.json"), encoding="utf-8") as file:
            models = [entry["name"] for entry in json.load(file)["entries"]]
        printed = run(LOSSGRID)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        rows = printed.stdout.splitlines()[2:]
        self.assertEqual([row.split()[1] for row in rows], models)
        for row in rows:
            self.assertRegex(row, r"\)( \| [\d,]+){3} \|$")

    def test_it_ends_as_lossgrid_does(self):
        self.assertEqual(run("/bin/false").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
