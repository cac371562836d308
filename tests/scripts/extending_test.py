#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/extending: the examples of docs/extending.md keep their limits, apply to this tree,
and each of their faults is named. extending_test.py LOSSGRID [Built]: with the second word they are built and run,
beside the executable."""

import argparse
import importlib.machinery
import importlib.util
import os
import shlex
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


def module():
    loader = importlib.machinery.SourceFileLoader("extending", os.path.join(ROOT, "scripts", "extending"))
    found = importlib.util.module_from_spec(importlib.util.spec_from_loader("extending", loader))
    loader.exec_module(found)
    return found


class SelectedTests(unittest.TestCase):
    """Only tests that a command selects are compiled."""

    def setUp(self):
        self.extending = module()
        self.tree = self.enterContext(tempfile.TemporaryDirectory())
        os.makedirs(os.path.join(self.tree, "tests", "verify", "truth"))
        os.makedirs(os.path.join(self.tree, "tests", "core"))
        for name, text in (("verify/truth/sums_test.cpp", "TEST(Sums, AreRight) {}"), ("verify/helper.h", ""),
                           ("verify/rows_test.cpp", "TEST_P(Rows,\n       HaveShards) {}"),
                           ("core/text_test.cpp", "TEST(Text, IsRead) {}")):
            with open(os.path.join(self.tree, "tests", name), "w", encoding="utf-8") as file:
                file.write(text)

    def kept(self, *commands):
        example = argparse.Namespace(commands=[(shlex.split(command), []) for command in commands])
        self.extending.examples = lambda: [example]
        self.extending.keep_selected_tests(self.tree)
        return sorted(name for _, _, names in os.walk(self.tree) for name in names)

    def test_of_a_folder_what_the_filter_names_is_kept(self):
        self.assertEqual(self.kept("lossgrid list", "lossgrid_test_verify --gtest_filter=Sums.*"),
                         ["helper.h", "sums_test.cpp", "text_test.cpp"])

    def test_filters_name_instantiations_and_tests(self):
        self.assertEqual(self.kept("lossgrid_test_verify --gtest_filter=No.*:All/*Shard*"),
                         ["helper.h", "rows_test.cpp", "text_test.cpp"])

    def test_without_a_filter_all_are_kept(self):
        self.assertEqual(len(self.kept("lossgrid_test_verify", "lossgrid_test_core --gtest_filter=Other.*")), 3)


class Examples(unittest.TestCase):
    def test_apply_one_after_the_other(self):
        extending = module()
        with tempfile.TemporaryDirectory() as folder:
            tree = extending.apply_all(folder)
            for example in extending.examples():
                with open(example.path, encoding="utf-8") as file:
                    added = [line[1:] for line in file if line.startswith("+") and not line.startswith("+++")]
                text = ""
                for name in example.files:
                    with open(os.path.join(tree, name), encoding="utf-8") as file:
                        text += file.read()
                self.assertEqual([line for line in added if line not in text], [], example.path)


class Built(unittest.TestCase):
    def test_all_are_built_and_run(self):
        folder = os.path.join(os.path.dirname(LOSSGRID), "extending")
        ended = extending(ROOT, "--build", folder)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertGreaterEqual(len(ended.stdout.splitlines()), 9, ended.stdout)


if __name__ == "__main__":
    LOSSGRID = os.path.realpath(sys.argv.pop(1))
    unittest.main(defaultTest=None if sys.argv[1:] else ["Faults", "SelectedTests", "Examples"])
