#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/check_words and scripts/check_readmes in repositories of their own."""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts")

GOOD = '''// SPDX-License-Identifier: Apache-2.0
// `Row`: one row of logits. See https://example.org/what
#pragma once
/// Returns the largest value. Sentences go on
/// What a line begins with does not matter here.
int largest(Row row);  // 0 for an empty row
const char* help = "what \\"said\\" and why_not print"; // the strings of users stay
int meeting = 1;
TEST(Rows, OffsetsAreSums) {}
TEST_F(Rows, WhereverTheyStandAreRead) {}
TEST_P(Rows, KeepWhatIsGiven) {}
TYPED_TEST(Rows, AreThoseOfTheirTellerAndSaying) {}
EXPECT_EQ(tested(Rows, OfAll), 1);
'''

# Lines of a .cpp file or a .py file, each with the rule that it breaks.
CLAUSE = "comment begins with a clause"
SPEAKS = "things do not speak"
NAMES = "private dialect"
TEST_CLAUSE = "name of a test begins with a clause"
TEST_SPEAKS = "things do not speak: the name of a test"
BAD_CPP = [("// What a row holds.", CLAUSE), ("/// Of one rank.", CLAUSE), ("  // Whether it ends", CLAUSE),
           ("int a;  // Why it ends", CLAUSE), ("int a;  ///< How", CLAUSE),
           ("// Zero, as the format says.", SPEAKS), ("// Nothing tells them apart.", SPEAKS),
           ("// Saying which is no telling.", SPEAKS), ("int a;  // as it was told", SPEAKS),
           ("const char* said = nullptr;", NAMES), ("auto text = first_text(a);", NAMES),
           ("group.meet();", NAMES), ('if (why_not("a").empty()) {', NAMES),
           ("TEST(Rows, OfARank) {", TEST_CLAUSE), ("TEST_F(Rows, WhatIsLeft) {", TEST_CLAUSE),
           ("TEST_P(Rows, Why) {", TEST_CLAUSE), ("TYPED_TEST(Rows, Of2Ranks) {", TEST_CLAUSE),
           ("  TEST( Rows, WhoseEnd_IsLeft) {", TEST_CLAUSE), ("TEST(Rows, TellTheRank) {", TEST_SPEAKS),
           ("TEST(Rows, ErrorsSayTheRank) {", TEST_SPEAKS), ("TEST_F(Rows, NoLineSays) {", TEST_SPEAKS)]
BAD_PYTHON = [('    """What it holds."""', CLAUSE), ("# Those of a rank.", CLAUSE),
              ("a = 1  # Where it stands", CLAUSE), ("def why_not(problem):", NAMES),
              ('"""A file.\n\nIts name says it."""', SPEAKS)]


class InARepository(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def run_on(self, script, files):
        """Returns the exit status and the lines of a script in a repository of these files."""
        for name, text in files.items():
            path = os.path.join(self.root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run(["git", "-C", self.root, "add", "-A"], check=True)
        done = subprocess.run([os.path.join(SCRIPTS, script)], cwd=self.root, text=True,
                              stdout=subprocess.PIPE)
        return done.returncode, done.stdout.splitlines()


class CheckWords(InARepository):
    def test_silent_on_good_text(self):
        files = {"row.h": GOOD, "row.cpp": GOOD, "notes.md": "What it says.\n",
                 "scripts/run": "# Runs all.\necho \"what is said\"\n", "row.py": '"""Rows."""\nx = "said"\n'}
        self.assertEqual(self.run_on("check_words", files), (0, []))

    def test_finds_every_relapse(self):
        for name, cases in (("row.cpp", BAD_CPP), ("row.py", BAD_PYTHON), ("scripts/run", BAD_PYTHON[1:3]),
                            ("CMakeLists.txt", BAD_PYTHON[1:2])):
            for line, rule in cases:
                with self.subTest(name=name, line=line):
                    status, found = self.run_on("check_words", {name: f"\n{line}\n"})
                    self.assertEqual(status, 1)
                    self.assertEqual(len(found), 1, found)
                    self.assertIn(rule, found[0])
                    self.assertTrue(found[0].startswith(f"{name}:{1 + len(line.splitlines())}:"), found)
                    os.remove(os.path.join(self.root, name))

    def test_finds_the_name_of_a_test_on_the_next_line(self):
        status, found = self.run_on("check_words", {"row.cpp": "TEST(Rows,\n     OfARank) {}\n"})
        self.assertEqual((status, found), (1, [f"row.cpp:1: {TEST_CLAUSE}: TEST(Rows,"]))

    def test_finds_a_header_without_an_opening_comment(self):
        status, found = self.run_on("check_words", {"row.h": "// SPDX\n#pragma once\n"})
        self.assertEqual((status, found), (1, ["row.h:2: header without an opening comment"]))


class CheckReadmes(InARepository):
    def test_finds_missing_and_long_ones(self):
        files = {"README.md": "line\n" * 201, "a/a.cpp": "", "b/b.py": "", "b/README.md": "line\n" * 16,
                 "c/c.h": "", "c/README.md": "line\n" * 15, "d/d.txt": "", "tests/a/a_test.cpp": "",
                 "tests/README.md": "line\n"}
        self.assertEqual(self.run_on("check_readmes", files),
                         (1, ["README.md: 201 lines, at most 200", "a/README.md: missing",
                              "b/README.md: 16 lines, at most 15"]))

    def test_silent_where_all_are_there(self):
        files = {"README.md": "line\n" * 200, "a/a.cu": "", "a/README.md": "line\n"}
        self.assertEqual(self.run_on("check_readmes", files), (0, []))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
