#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the configuration: without test libraries and MPI it has the program and no tests; with
them, in the same build folder, it has the tests."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OPTIONAL = ("GTest", "benchmark", "MPI")


class Configure(unittest.TestCase):
    def setUp(self):
        self.build = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.build)

    def configure(self, *options):
        return subprocess.run(["cmake", "-S", ROOT, "-B", self.build, "-G", "Ninja",
                               "-DLOSSGRID_CUDA=OFF", *options], capture_output=True, text=True,
                              check=False)

    def targets(self):
        printed = subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], check=True,
                                 capture_output=True, text=True).stdout
        return {line.split(":")[0] for line in printed.splitlines()}

    def test_what_is_not_there_is_left_out_until_it_is(self):
        ended = self.configure(*(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in OPTIONAL))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        targets = self.targets()
        self.assertIn("lossgrid", targets)
        for target in ("test_core", "lossgrid_gbench", "test_gbench", "test_mpi"):
            self.assertNotIn(target, targets)
        ended = self.configure(*(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=OFF" for name in OPTIONAL))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertLessEqual({"lossgrid", "test_core", "lossgrid_gbench", "test_gbench", "test_mpi"},
                             self.targets())

    def test_tests_that_are_asked_for_need_their_library(self):
        ended = self.configure("-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON", "-DLOSSGRID_TESTS=ON")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("LOSSGRID_TESTS=ON, but there is no GoogleTest with GoogleMock", ended.stderr)

    def test_all_libraries_that_are_missing_are_named(self):
        ended = self.configure("-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("not found: fmt, hwy (on Debian, scripts/setup run installs them)", ended.stderr)

    def test_warnings_are_errors_in_presets_of_ci_only(self):
        for preset, are_errors in (("release", False), ("ci-release", True)):
            ended = self.configure("--preset", preset)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as file:
                commands = [entry["command"] for entry in json.load(file)]
            self.assertEqual([" -Werror " in command for command in commands],
                             [are_errors] * len(commands), preset)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
