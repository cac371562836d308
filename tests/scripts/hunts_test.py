#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/hunts with a stand-in for lossgrid: hunts_test.py."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../.."))
HUNTS = os.path.join(ROOT, "scripts/hunts")


class Hunts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def hunts(self, status_of_kind, *arguments):
        """Runs the script; lossgrid ends with the status of the kind in the name of its report."""
        program = os.path.join(self.folder, "lossgrid")
        cases = "".join(f"*{kind}.json*) exit {status};; " for kind, status in status_of_kind.items())
        with open(program, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "$@"\ncase "$*" in {cases} *) exit 0;; esac\n')
        os.chmod(program, 0o755)
        return subprocess.run([sys.executable, HUNTS, *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "LOSSGRID_BUILD": self.folder})

    def test_kinds_share_the_time_and_the_seed(self):
        ended = self.hunts({}, "--seconds", "30", "--seed", "7")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        lines = ended.stdout.splitlines()
        self.assertRegex(ended.stdout, r"hunt --quiet --seed 7 --seconds 12 --report \S+/built_in.json\n")
        self.assertRegex(ended.stdout, r"--seconds 6 --report \S+/emulated.json --backend cuda_emulated\n")
        for kind in ("built_in", "emulated", "from_hidden", "processes", "python"):
            self.assertTrue(any(line.startswith(f"{kind}:") for line in lines), ended.stdout)

    def test_a_failure_of_any_kind_is_the_status(self):
        self.assertEqual(self.hunts({"from_hidden": 10}).returncode, 10)
        self.assertEqual(self.hunts({"built_in": 77}).returncode, 0)
        all_of_them = dict.fromkeys(("built_in", "emulated", "from_hidden", "processes", "python"), 77)
        self.assertEqual(self.hunts(all_of_them).returncode, 77)

    def test_bad_input_is_one_line(self):
        ended = self.hunts({}, "--seconds", "0")
        self.assertEqual((ended.returncode, ended.stderr), (64, "hunts: --seconds 0 must be above 0\n"))
        self.assertEqual(self.hunts({}, "--seed", "x").returncode, 64)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
