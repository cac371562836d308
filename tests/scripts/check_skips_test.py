#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/check_skips on results that ctest writes for tests skipped in every way."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "scripts" / "check_skips"
TESTS = r"""
add_test(by_google_test sh -c "echo 'x.cpp:5: Skipped'; echo 'needs a GPU: none'; echo '[  SKIPPED ]'")
set_tests_properties(by_google_test PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")
add_test(by_exit_code sh -c "echo 'looks around'; echo 'bench: skipped, no PyTorch' >&2; exit 77")
add_test(wordless sh -c "exit 77")
set_tests_properties(by_exit_code wordless PROPERTIES SKIP_RETURN_CODE 77)
add_test(good true)
add_test(cpu.shard0 cat shard0.txt)
add_test(cpu.shard1 cat shard1.txt)
"""
SHARDS = ["""\
[ RUN      ] A.One
prints Skipped
[       OK ] A.One (0 ms)
[ RUN      ] A.Two/0
x.cpp:5: Skipped
needs a GPU

[  SKIPPED ] A.Two/0 (3 ms)
[----------] 2 tests from A (3 ms total)

[ RUN      ] B.Three
x.cpp:9: Skipped
no PyTorch
[  SKIPPED ] B.Three (0 ms)
[----------] 1 test from B (0 ms total)

[  PASSED  ] 1 test.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] A.Two/0
[  SKIPPED ] B.Three
""", """\
[ RUN      ] C.Four
[  SKIPPED ] C.Four (0 ms)
[ RUN      ] C.Five
[       OK ] C.Five (0 ms)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] C.Four
"""]


class CheckSkips(unittest.TestCase):
    def check(self, allowed, only=""):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "CTestTestfile.cmake").write_text(TESTS, encoding="utf-8")
            for shard, output in enumerate(SHARDS):
                Path(folder, f"shard{shard}.txt").write_text(output, encoding="utf-8")
            Path(folder, "allowed.txt").write_text(allowed, encoding="utf-8")
            subprocess.run(["ctest", "-R", only, "--output-junit", "results.xml"], cwd=folder,
                           capture_output=True, check=True)
            return subprocess.run([SCRIPT, "results.xml", "allowed.txt"], cwd=folder,
                                  capture_output=True, text=True, check=False)

    def test_what_is_listed_passes_and_is_printed_with_its_reason(self):
        ended = self.check("# comment\n\nby_g*  needs a GPU\nby_exit_code PyTorch\n", "by_|good")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(ended.stdout, "skipped: by_exit_code: bench: skipped, no PyTorch\n"
                                       "skipped: by_google_test: needs a GPU: none\n")

    def test_what_is_not_listed_fails(self):
        ended = self.check("by_exit_code PyTorch\n", "by_")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr, "check_skips: by_google_test is skipped (needs a GPU: none), "
                                       "which allowed.txt does not allow\n")

    def test_another_reason_than_the_listed_one_fails(self):
        ended = self.check("by_google_test no PyTorch\n", "by_google_test")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr.count("\n"), 1)

    def test_a_skip_without_a_reason_fails_though_listed(self):
        ended = self.check("* e\n", "wordless")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr, "check_skips: wordless is skipped without a reason\n")

    def test_what_google_test_skips_among_others_is_found(self):
        listed = "cpu.A.Two/0 a GPU\ncpu.B.Three no Py\n"
        ended = self.check(listed, "cpu.shard0")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(ended.stdout, "skipped: cpu.A.Two/0: needs a GPU\n"
                                       "skipped: cpu.B.Three: no PyTorch\n")
        ended = self.check(listed, "cpu.shard1")
        self.assertEqual((ended.returncode, ended.stdout), (1, "skipped: cpu.C.Four: without a reason\n"))

    def test_nothing_skipped(self):
        ended = self.check("", "good")
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "skipped: none\n", ""))

    def test_bad_input(self):
        ended = self.check("by_google_test\n")
        self.assertEqual(ended.returncode, 65)
        self.assertIn("'by_google_test' has no reason behind it", ended.stderr)
        ended = subprocess.run([SCRIPT, "nowhere.xml", SOURCE / "tests/allowed_skips.txt"],
                               capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 65)
        self.assertIn("nowhere.xml", ended.stderr)
        self.assertEqual(subprocess.run([SCRIPT], capture_output=True, check=False).returncode, 64)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
