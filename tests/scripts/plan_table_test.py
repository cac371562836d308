#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the documentation has the table that scripts/plan_table prints."""

import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "scripts", "plan_table")
LOSSGRID = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/lossgrid")
BEGIN, END = "<!-- by scripts/plan_table -->\n", "<!-- end of it -->\n"


def run(executable):
    return subprocess.run([sys.executable, SCRIPT, executable], capture_output=True, text=True,
                          check=False)


class PlanTable(unittest.TestCase):
    maxDiff = None

    def test_readme_has_it(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        self.assertEqual((readme.count(BEGIN), readme.count(END)), (1, 1))
        written = readme[readme.index(BEGIN) + len(BEGIN):readme.index(END)]
        printed = run(LOSSGRID)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertGreater(printed.stdout.count("\n"), 2)
        self.assertEqual(written.strip("\n"), printed.stdout.strip("\n"),
                         "README's table is not what scripts/plan_table prints")

    def test_it_ends_as_lossgrid_does(self):
        self.assertEqual(run("/bin/false").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
