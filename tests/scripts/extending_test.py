#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/extending: the examples of docs/extending.md keep their limits, apply to this tree,
build and run, and each of their faults is named. Called with the executable, beside which it builds."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))

PATCH = """Kind: a line
Most: 1
{more}
diff --git a/{file} b/{file}
--- a/{file}
+++ b/{file}
@@ -1 +1,2 @@
 {line}
+two
"""


def extending(root, *arguments):
    return subprocess.run([os.path.join(root, "scripts", "extending"), *arguments], capture_output=True, text=True,
                          check=False)


class Faults(unittest.TestCase):
    def setUp(self):
        self.root = self.enterContext(tempfile.TemporaryDirectory())
        os.makedirs(os.path.join(self.root, "scripts"))
        os.makedirs(os.path.join(self.root, "tests", "extending"))
        shutil.copy(os.path.join(ROOT, "scripts", "extending"), os.path.join(self.root, "scripts"))
        with open(os.path.join(self.root, "text"), "w", encoding="utf-8") as file:
            file.write("one\n")
        for command in (["init", "-q"], ["add", "text"]):
            subprocess.run(["git", *command], cwd=self.root, check=True)

    def patch(self, more="Run: lossgrid list", file="text", line="one", name="a"):
        with open(os.path.join(self.root, "tests", "extending", name + ".patch"), "w", encoding="utf-8") as out:
            out.write(PATCH.format(more=more, file=file, line=line))

    def expect_fault(self, text, *arguments):
        ended = extending(self.root, *arguments)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("extending: a line", ended.stderr)
        self.assertIn(text, ended.stderr)

    def test_the_table_names_the_files(self):
        self.patch()
        self.assertIn("| [a line](../tests/extending/a.patch) | 1 | `text` |", extending(self.root).stdout)

    def test_too_many_files_are_a_fault(self):
        self.patch(more="Most: 0\nRun: lossgrid list")
        self.expect_fault("1 files, at most 0")

    def test_a_file_outside_of_the_folder_is_a_fault(self):
        self.patch(more="Folder: harness\nRun: lossgrid list")
        self.expect_fault("text is not in harness")

    def test_an_example_without_a_command_is_a_fault(self):
        self.patch(more="")
        self.expect_fault("no line `Run: COMMAND`")

    def test_a_patch_that_does_not_apply_is_a_fault(self):
        self.patch(line="another")
        self.expect_fault("does not apply", "--build", os.path.join(self.root, "build"))


class Examples(unittest.TestCase):
    def test_apply_build_and_run(self):
        folder = os.path.join(os.path.dirname(LOSSGRID), "extending")
        ended = extending(ROOT, "--build", folder)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertGreaterEqual(len(ended.stdout.splitlines()), 9, ended.stdout)


if __name__ == "__main__":
    LOSSGRID = os.path.realpath(sys.argv.pop(1))
    unittest.main()
