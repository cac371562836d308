#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/times on logs as ninja and ctest write them."""

import os
import sys
import unittest

sys.dont_write_bytecode = True

from stand_ins import ScriptTest

NINJA = """# ninja log v5
0\t900\t1\ta.o\t1a
10\t4010\t1\tb.o\t1b
4020\t9020\t1\tlib.a\t1c
4020\t9020\t1\tlib.map\t1c
0\t2000\t2\ta.o\t1a
"""
RESULTS = """<testsuite><testcase name="one" time="2.5" status="run"/>
<testcase name="two" time="30" status="fail"><failure/></testcase>
<testcase name="none" time="0" status="notrun"/></testsuite>
"""


class Times(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("times")
        self.write("release/.ninja_log", NINJA)
        self.write("release/tests.xml", RESULTS)
        self.write("fuzz/.ninja_log", "# ninja log v5\n0\t6000\t1\tc.o\t2a\n")

    def write(self, name, text):
        path = os.path.join(self.root, "build", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def kept(self, name):
        with open(os.path.join(self.root, "build", "times", name), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_the_longest_of_all_presets_are_printed(self):
        ended = self.run_script("times", "--rows", "2", "release", "fuzz")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(ended.stdout.splitlines(), [
            "longest build steps (more in build/times):", "     6.0 s  fuzz: c.o", "     5.0 s  release: lib.a",
            "longest tests (more in build/times):", "    30.0 s  release: two", "     2.5 s  release: one"])

    def test_tables_are_kept(self):
        self.run_script("times", "release", "fuzz")
        self.assertEqual(sorted(os.listdir(os.path.join(self.root, "build", "times"))),
                         ["ctest-release.txt", "ninja-fuzz.txt", "ninja-release.txt"])
        # a.o has the time of its last build, and a step of two files one line.
        self.assertEqual(self.kept("ninja-release.txt"), [
            "3 build steps, 11 s one after the other; the longest:", "     5.0 s  lib.a", "     4.0 s  b.o",
            "     2.0 s  a.o"])
        self.assertEqual(self.kept("ctest-release.txt")[1:], ["    30.0 s  two", "     2.5 s  one"])

    def test_tables_have_thirty_rows(self):
        self.write("fuzz/.ninja_log", "".join(f"0\t{k}000\t1\t{k}.o\t{k}\n" for k in range(1, 100)))
        self.run_script("times", "fuzz")
        kept = self.kept("ninja-fuzz.txt")
        self.assertEqual((len(kept), kept[1], kept[-1]), (31, "    99.0 s  99.o", "    70.0 s  70.o"))

    def test_bad_input(self):
        self.assertEqual(self.run_script("times").returncode, 64)
        self.write("release/tests.xml", "<testsuite>")
        ended = self.run_script("times", "release")
        self.assertEqual(ended.returncode, 65)
        self.assertIn("build/release/tests.xml", ended.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
