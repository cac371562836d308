#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/check_rooms in repositories of its own."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/check_rooms")

GOOD = {
    "harness/runner/job/ranks.h": "",
    "harness/runner/rank/pack.h": '#include "harness/runner/job/ranks.h"\n',
    "harness/runner/run.cpp": '#include "harness/runner/rank/pack.h"\n',
    "impls/objectives/nll/nll.cpp": '#include "harness/runner/run.h"\n',
    "impls/objectives/nll/nll_mutants.cpp": '#include "impls/mutants/mutant.h"\n',
    "impls/objectives/nll/plain_nll.cpp": '#include "impls/objectives/plain/plain_case.h"\n',
    "impls/objectives/plain/plain_case.h": '#include "harness/problem/batch/problem.h"\n',
    "tests/impls/objectives/plain/plain_test.cpp": '#include "impls/objectives/plain/plain_case.h"\n',
    "impls/mutants/mutant.h": '#include "impls/objectives/nll/nll.h"\n',
    "impls/kernels/cpu/rows.cpp": "",
    "tests/impls/kernels/rows_test.cpp": "",  # one folder above its source
    "tests/runner/rank/pack_test.cpp": '#include "harness/runner/run.h"\n',
    "tests/runner/whole_suites_test.cpp": "",  # of no source file
}


class CheckRooms(unittest.TestCase):
    def faults(self, files):
        """Returns the lines that the check prints about a repository of these files."""
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                whole = os.path.join(folder, path)
                os.makedirs(os.path.dirname(whole), exist_ok=True)
                with open(whole, "w", encoding="utf-8") as file:
                    file.write(text)
            subprocess.run(["git", "init", "-q", folder], check=True)
            subprocess.run(["git", "-C", folder, "add", "."], check=True)
            ended = subprocess.run([sys.executable, SCRIPT], cwd=folder, capture_output=True, text=True,
                                   check=False)
        lines = ended.stdout.splitlines()
        self.assertEqual(ended.returncode, 1 if lines else 0, ended.stderr)
        return lines

    def test_rooms_in_order_have_no_fault(self):
        self.assertEqual(self.faults(GOOD), [])

    def test_an_include_against_the_order_is_a_fault(self):
        for path, text, place in (
                ("harness/runner/job/trace.h", '#include "harness/runner/rank/pack.h"\n', "harness/runner/job"),
                ("harness/runner/verdict/judge.h", '#include "harness/runner/run.h"\n', "harness/runner/verdict"),
                ("impls/objectives/nll/nll.h", '#include "impls/mutants/mutant.h"\n', "impls/objectives")):
            lines = self.faults({**GOOD, path: text})
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(f"{path}: {place} includes ", lines[0])

    def test_judges_that_share_code_are_a_fault(self):
        for path, name in (("impls/objectives/nll/plain_nll.cpp", "impls/objectives/nll/nll_terms.h"),
                           ("impls/objectives/plain/plain_case.h", "harness/problem/batch/sharding.h"),
                           ("impls/objectives/nll/nll.h", "impls/objectives/plain/plain_case.h")):
            lines = self.faults({**GOOD, path: f'#include "{name}"\n'})
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(f"includes {name}", lines[0])

    def test_a_large_folder_is_a_fault(self):
        files = {f"scripts/part_{k}": "" for k in range(41)}
        self.assertEqual(self.faults({**GOOD, **files}), ["scripts: 41 files, at most 40"])
        files.popitem()
        self.assertEqual(self.faults({**GOOD, **files}), [])

    def test_a_test_beside_another_source_is_a_fault(self):
        for path in ("tests/runner/job/pack_test.cpp", "tests/impls/kernels/cuda/rows_test.cpp"):
            lines = self.faults({**GOOD, path: ""})
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(f"{path}: its source is in ", lines[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
