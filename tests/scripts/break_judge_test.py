#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/break_judge without a compiler: its breaks fit the sources and name mutants that exist.
`scripts/break_judge` itself, some minutes, shows that each of them is noticed."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SCRIPT = os.path.join(ROOT, "scripts", "break_judge")
LOSSGRID = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/lossgrid")


def load_script():
    loader = importlib.machinery.SourceFileLoader("break_judge", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("break_judge", loader))
    loader.exec_module(module)
    return module


class BreakJudge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = load_script()
        cls.breaks = cls.script.read_breaks()

    def test_every_break_fits_its_source(self):
        sources = self.script.broken_sources(self.breaks)
        for one in self.breaks:
            self.assertIn(f"lossgrid_is_broken(\"{one['name']}\")", sources[one["file"]])

    def test_a_text_that_is_not_there_once_is_refused(self):
        stale = dict(self.breaks[0], old="no such text")
        with self.assertRaisesRegex(SystemExit, "0 times, not once"):
            self.script.broken_sources([stale])

    def test_names_are_unique_and_tests_are_folders(self):
        names = [one["name"] for one in self.breaks]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(names), 25)
        for one in self.breaks:
            self.assertNotEqual(bool(one["mutants"]), bool(one["tests"]), one["name"])
            for folder in one["tests"]:
                self.assertTrue(os.path.isdir(os.path.join(ROOT, "tests", folder)), folder)

    def test_mutants_exist(self):
        printed = subprocess.run([LOSSGRID, "list", "mutants", "--markdown"], capture_output=True, text=True,
                                 check=True).stdout
        for one in self.breaks:
            for mutant in one["mutants"]:
                self.assertIn(f"| `{mutant}` |", printed, one["name"])

    def test_the_table_counts_what_is_noticed(self):
        results = [{"what": "a", "survivor": "m", "test": ""}, {"what": "b", "survivor": "", "test": "verify.A.B"},
                   {"what": "c", "survivor": "", "test": ""}]
        text = self.script.table(results)
        self.assertIn("| a | `mutant/m` |\n| b | test `verify.A.B` |\n| c | - |\n", text)
        self.assertTrue(text.endswith("Of 3 breaks the mutation score notices 1, other tests 1.\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
