#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/capabilities; docs_test.py compares its output with docs/capabilities.md."""

import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "scripts", "capabilities")
LOSSGRID = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/lossgrid")


def run(executable):
    return subprocess.run([sys.executable, SCRIPT, executable], capture_output=True, text=True,
                          check=False)


class Capabilities(unittest.TestCase):
    def test_every_objective_of_the_registry_is_in_a_case(self):
        listed = subprocess.run([LOSSGRID, "list", "objectives"], capture_output=True, text=True, check=True)
        names = {line.split()[0] for line in listed.stdout.splitlines()}
        with open(os.path.join(ROOT, "docs", "capabilities.md"), encoding="utf-8") as file:
            cases = set(re.findall(r"objective=(\w+)", file.read())) | {"nll"}
        self.assertEqual(names, cases)

    def test_a_trial_that_does_not_pass_is_no_capability(self):
        for program in ("/bin/false", "/bin/true"):
            ended = run(program)
            self.assertEqual(ended.returncode, 1)
            self.assertRegex(ended.stderr, r"^capabilities: .*: run --quiet --case .* ended with [01]")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
