#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/fuzz with programs that stand for setup, build and the fuzz targets."""

import sys
import unittest

from stand_ins import ScriptTest


class Fuzz(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("fuzz")
        self.stand_in("scripts/setup")
        self.stand_in("scripts/build")
        for name in ("suite", "policy"):
            self.stand_in(f"tests/fuzz/{name}.cpp")
            self.target(name, "echo stat::number_of_executed_units: 12")

    def target(self, name, text, status=0):
        self.stand_in(f"build/fuzz/tests/fuzz/fuzz_{name}", text, status)

    def test_runs_all_targets_for_the_time(self):
        ended = self.run_script("fuzz", "--seconds", "5")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(sorted(ended.stdout.splitlines()),
                         ["fuzz: policy: 12 inputs, nothing found", "fuzz: suite: 12 inputs, nothing found"])
        self.assertEqual(self.calls("build"), [
            "build fuzz -DCMAKE_CXX_FLAGS_DEBUG=-O0 -g1 fuzz_policy fuzz_suite"])
        for name in ("suite", "policy"):
            call, = self.calls(f"fuzz_{name}")
            self.assertIn("-max_total_time=5 ", call)
            self.assertTrue(call.endswith(f"build/fuzz/corpus/{name} tests/fuzz/corpus/{name}"), call)

    def test_a_finding_is_named_and_the_other_targets_run(self):
        self.target("policy", "echo 'Test unit written to build/fuzz/findings/policy/crash-1'", 77)
        ended = self.run_script("fuzz", "--seconds", "5")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("fuzz: policy: found build/fuzz/findings/policy/crash-1 ", ended.stderr)
        self.assertIn("fuzz: suite: 12 inputs, nothing found", ended.stdout)

    def test_runs_the_targets_that_are_named(self):
        self.assertEqual(self.run_script("fuzz", "suite").returncode, 0)
        self.assertEqual(self.calls("build"), ["build fuzz -DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1 fuzz_suite"])
        self.assertEqual(self.calls("fuzz_")[0].split()[0], "fuzz_suite")
        self.assertEqual(len(self.calls("fuzz_")), 1)

    def test_a_build_that_fails_runs_nothing(self):
        self.stand_in("scripts/build", status=1)
        self.assertEqual(self.run_script("fuzz").returncode, 1)
        self.assertEqual(self.calls("fuzz_"), [])

    def test_wrong_arguments_are_usage(self):
        for arguments, text in ((("sweet",), "there is no target 'sweet'"),
                                (("--seconds", "0"), "--seconds takes a whole number from 1 on"),
                                (("--seconds",), "--seconds takes a whole number from 1 on"),
                                (("--minutes",), "usage: scripts/fuzz [--seconds N] [policy|suite]")):
            ended = self.run_script("fuzz", *arguments)
            self.assertEqual(ended.returncode, 64, arguments)
            self.assertIn(text, ended.stderr)
            self.assertEqual(self.calls("build"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
