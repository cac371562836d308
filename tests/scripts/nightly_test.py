#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/nightly with small lists and reproductions: nightly_test.py LOSSGRID. Trials run
with the adapter of PyTorch. Ends with 77 where PyTorch cannot be imported."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from with_torch import ROOT, require_torch

PYTHON = require_torch()
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "python")]

from scoreboard import known

LOSSGRID = os.path.abspath(sys.argv.pop(1))
NIGHTLY = os.path.join(ROOT, "scripts/nightly")
REAL_LIST = os.path.join(ROOT, "impls/frameworks/findings/known.json")
TORCH = os.path.abspath(os.path.join(ROOT, "impls/frameworks/torch_losses.py"))
REPRODUCTION = {"finding": "F1", "package": "torch", "file": "F1.py"}
TRIAL = {"finding": "F2", "package": "torch", "load": TORCH, "grid": "tp1cp1",
         "implementation": "torch_cross_entropy_by_token",
         "case": "lens=5+8 vocab=96 dtype=bf16 values=overflow poison=none"}


class Nightly(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_on(self, entries, printed="", *options, more=(), **environment):
        """Runs the script on a list, with the keys of `more`, beside a reproduction that prints `printed`."""
        for name, text in (("list.json", json.dumps({"findings": entries, **dict(more)})),
                           ("F1.py", f"print({printed!r})")):
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
                file.write(text)
        return subprocess.run(
            [sys.executable, NIGHTLY, "--list", os.path.join(self.folder.name, "list.json"),
             "--python", PYTHON, *options], capture_output=True, text=True, check=False,
            env={**os.environ, "LOSSGRID_BUILD": os.path.dirname(LOSSGRID), **environment})

    def test_a_finding_is_found_or_not(self):
        for wanted, printed, status in (
                ([1.0, 4.0], "ratio: (1.0, 4.01) (right: 1)", 0), ([1.0, 4.0], "ratio: (1.0, 1.0)", 10),
                ([1.0], "ratio: (1.0, 4.0)", 10), ("nan", "ratio: nan (right: 0)", 0),
                ("nan", "ratio: 0 (right: nan)", 10), ("nan", "another: nan", 10), ([4096], "", 10)):
            ended = self.run_on([{**REPRODUCTION, "prints": {"ratio:": wanted}}], printed)
            self.assertEqual(ended.returncode, status, (printed, ended.stdout + ended.stderr))
            first = ended.stdout.splitlines()[0]
            self.assertTrue(first.startswith("found " if status == 0 else "not found "), first)
        self.assertIn("no line begins with 'ratio:'", ended.stdout)

    def test_a_verdict_of_lossgrid(self):
        for verdict, text, status in (("less precise", "logprobs", 0), ("wrong", "logprobs", 10),
                                      ("less precise", "no such reason", 10)):
            ended = self.run_on([{**TRIAL, "verdict": verdict, "text": text}])
            self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        self.assertIn("its reason lacks 'no such reason'", ended.stdout)

    def test_one_that_is_not_found_fails_the_others_too(self):
        entries = [{**REPRODUCTION, "prints": {"a:": [1]}},
                   {**REPRODUCTION, "finding": "F3", "prints": {"b:": [1]}}]
        ended = self.run_on(entries, "a: 1")
        self.assertEqual(ended.returncode, 10)
        self.assertIn("1 found, 1 not found, 0 not run", ended.stdout)
        self.assertEqual(self.run_on(entries, "a: 1", "F1").returncode, 0)

    def program(self, name, text):
        """Makes a program of the build, and returns the options of run_on that have it found."""
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        return {"LOSSGRID_BUILD": self.folder.name, "PATH": self.folder.name + os.pathsep + os.environ["PATH"]}

    def test_cases_are_drawn_with_the_seeds_of_the_list(self):
        entries = [{**REPRODUCTION, "prints": {"a:": [1]}}]

        def ended_with(printed):
            environment = self.program("tests/test_mutants", f'echo "$LOSSGRID_SEEDS $1"\n{printed}')
            return self.run_on(entries, "a: 1", more={"seeds": 8}, **environment)

        ended = ended_with('[ "$LOSSGRID_SEEDS $1" = "8 --gtest_filter=Bounds.*:*OtherSeeds*" ] && '
                           'echo "[  PASSED  ] 4 tests."')
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertRegex(ended.stdout, r"found +seeds +lossgrid +8 seeds\n")
        for printed in ('echo "[  PASSED  ] 1 test."; echo "[  FAILED  ] Bounds.A"', 'echo "[  PASSED  ] 0 tests."', "exit 1"):
            ended = ended_with(printed)
            self.assertEqual(ended.returncode, 10, printed)
            self.assertRegex(ended.stdout, r"not found +seeds +lossgrid +8 seeds: ")
        os.remove(os.path.join(self.folder.name, "tests", "test_mutants"))
        ended = self.run_on(entries, "a: 1", more={"seeds": 8}, LOSSGRID_BUILD=self.folder.name)
        self.assertRegex(ended.stdout, "not run +seeds")
        self.assertEqual(ended.returncode, 0)

    def test_listed_tests_run(self):
        entries = [{**REPRODUCTION, "prints": {"a:": [1]}}]
        tests = os.path.join(self.folder.name, "tests.txt")
        with open(tests, "w", encoding="utf-8") as file:
            file.write("# Long ones.\n\nscripts\\.a\nexternal\\.B\\..*\n")
        for status, code, text in ((0, 0, "found +tests +lossgrid"), (8, 10, "not found +tests +lossgrid.*: 1 failed\n")):
            environment = self.program("ctest", f'echo "$@" >"{tests}.calls"\necho 1 failed\nexit {status}')
            ended = self.run_on(entries, "a: 1", more={"tests": tests}, **environment)
            self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
            self.assertRegex(ended.stdout, text)
        with open(f"{tests}.calls", encoding="utf-8") as file:
            self.assertRegex(file.read(), rf"^--test-dir {self.folder.name} .* -R \^\(scripts\\\.a\|external\\\.B\\\.\.\*\)\$\n")

    def test_hunts_have_the_time_of_the_list(self):
        entries = [{**REPRODUCTION, "prints": {"a:": [1]}}]
        calls = os.path.join(self.folder.name, "calls")
        for status, code, text in ((0, 0, r"found +hunts +lossgrid +5 s\n"),
                                   (10, 10, r"not found +hunts +lossgrid +5 s: ")):
            environment = self.program("lossgrid", f'echo "$@" >>"{calls}"\nexit {status}')
            ended = self.run_on(entries, "a: 1", more={"hunt_seconds": 5}, **environment)
            self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
            self.assertRegex(ended.stdout, text)
        with open(calls, encoding="utf-8") as file:
            self.assertRegex(file.readline(), r"^hunt --quiet --seed 20\d{6} --seconds 2 --report \S+built_in.json$")

    def test_fuzz_targets_have_the_time_of_the_list(self):
        ended = self.run_on([{**REPRODUCTION, "prints": {"a:": [1]}}], "a: 1", more={"fuzz_seconds": "ten"})
        self.assertEqual(ended.returncode, 10, ended.stdout + ended.stderr)
        self.assertRegex(ended.stdout, "not found +fuzz +lossgrid +ten s: fuzz: --seconds takes a whole number")

    def test_nothing_ran(self):
        ended = self.run_on([{**REPRODUCTION, "prints": {"a:": [1]}}], "a: 1", "--python", "/no/python")
        self.assertEqual(ended.returncode, 77, ended.stdout)
        self.assertIn("not run    F1", ended.stdout)

    def test_a_package_without_its_source_is_not_run(self):
        entries = [{**REPRODUCTION, "package": "nemo_rl", "prints": {"a:": [1]}}]
        ended = self.run_on(entries, "a: 1", NEMO_RL_SOURCE="")
        self.assertEqual(ended.returncode, 77, ended.stdout)
        self.assertIn("NEMO_RL_SOURCE names no folder", ended.stdout)
        self.assertEqual(self.run_on(entries, "a: 1", NEMO_RL_SOURCE="/").returncode, 0)

    def test_bad_input(self):
        ended = self.run_on([{"finding": "F1"}])
        self.assertEqual((ended.returncode, ended.stdout), (65, ""))
        self.assertIn("finding 1 has the keys finding; wanted are", ended.stderr)
        ended = self.run_on([])
        self.assertEqual(ended.returncode, 65)
        ended = self.run_on([{**REPRODUCTION, "prints": {}}])
        self.assertEqual(ended.returncode, 65)
        self.assertIn("finding 1 prints nothing", ended.stderr)
        ended = self.run_on([{**REPRODUCTION, "prints": {"a:": [1]}}], "", "V1")
        self.assertEqual(ended.returncode, 64)
        self.assertIn("no finding 'V1'; there are F1", ended.stderr)

    def test_the_recorded_list(self):
        entries = known.read(REAL_LIST)["findings"]
        self.assertGreater(len(entries), 20)
        for key in ("seeds", "tests", "hunt_seconds", "fuzz_seconds"):
            self.assertIn(key, known.read(REAL_LIST))
        self.assertTrue(os.path.exists(os.path.join(ROOT, known.read(REAL_LIST)["tests"])))
        for entry in entries:
            file = os.path.join(os.path.dirname(REAL_LIST), entry.get("file") or entry["load"])
            self.assertTrue(os.path.exists(file), file)


if __name__ == "__main__":
    unittest.main()
