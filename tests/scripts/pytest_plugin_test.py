#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of lossgrid.pytest with the real pytest: pytest_plugin_test.py LOSSGRID. Ends with 77 where
PyTorch or pytest cannot be imported."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from with_torch import ROOT, require_torch

PYTHON = require_torch()
try:
    import pytest  # noqa: F401
    import xdist  # noqa: F401
except ImportError as error:
    print(f"skipped, {error}")
    sys.exit(77)

LOSSGRID = os.path.abspath(sys.argv.pop(1))

RIGHT = '''
import lossgrid
import torch
import torch.distributed as dist

@lossgrid.implementation(vocab_split="equal",
                         supports=lambda p: "no bf16 here" if p.dtype == "bfloat16" else "")
def mine(logits, batch):
    gathered = logits.new_empty(batch.tp.size, *logits.shape)
    parts = list(gathered)
    dist.all_gather(parts, logits.detach(), group=batch.tp.group)
    parts[batch.tp.rank] = logits
    return torch.cat(parts, 1).float().log_softmax(1).gather(1, batch.labels[:, None])[:, 0]
'''
WRONG = RIGHT.replace("def mine", "def wrong").replace("[:, 0]\n", "[:, 0] * 1.001\n")
TESTS = {
    "my_loss.py": RIGHT,
    "test_right.py": '''
import lossgrid
from my_loss import mine

test_mine = lossgrid.suite(mine, suite="smoke", grids=["tp1cp1", "tp2cp2"])
not_a_test = lossgrid.suite(mine, suite="none")
''',
    "test_wrong.py": f'''{WRONG}

class TestWrong:
    test_wrong = lossgrid.suite(wrong, cases=["lens=5+8 vocab=96", "lens=3+2 vocab=96"],
                                grids=["tp1cp1", "tp2cp1"])
''',
}
SMOKE = ["C0 worked example", "C0 bin fill", "C2 empty, single and short sequences",
         "C5 targets on shard edges", "bf16", "overflow"]
RIGHT_ITEMS = [f"test_right.py::test_mine[{case}-{grid}]" for case in SMOKE
               for grid in ("tp1cp1", "tp2cp2")]
WRONG_ITEMS = [f"test_wrong.py::TestWrong::test_wrong[{case}-{grid}]"
               for case in ("lens=5+8 vocab=96", "lens=3+2 vocab=96")
               for grid in ("tp1cp1", "tp2cp1")]


class PytestPlugin(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(self.path("tmp"))
        # The executable, with a record of its command lines.
        self.write("lossgrid", f'#!/bin/sh\necho "$@" >>"{self.path("calls")}"\n'
                               f'exec "{LOSSGRID}" "$@"\n')
        os.chmod(self.path("lossgrid"), 0o755)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def write_tests(self, *names):
        for name in names or TESTS:
            self.write(name, TESTS[name])

    def pytest(self, *arguments, **variables):
        """Runs pytest; a command line may begin no run that outlives it, and leave no files."""
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"),
                       "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": self.path("tmp"),
                       "LOSSGRID_EXECUTABLE": self.path("lossgrid"), "COLUMNS": "200", **variables}
        ended = subprocess.run(
            [PYTHON, "-m", "pytest", "-p", "lossgrid.pytest", "-p", "no:cacheprovider",
             "-v", "-rs", *arguments], cwd=self.folder, env=environment, capture_output=True,
            text=True, timeout=900, check=False)
        self.assertEqual(glob.glob(self.path("tmp/lossgrid*")), [])
        self.assertEqual(self.processes(), [])
        return ended.returncode, ended.stdout + ended.stderr

    def processes(self):
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    words = file.read().decode(errors="replace")
            except OSError:
                continue
            if self.path("tmp") in words:
                found.append(words.replace("\0", " "))
        return found

    def runs(self):
        with open(self.path("calls"), encoding="utf-8") as file:
            return [line for line in file if "--list-trials" not in line]

    def outcomes(self, out):
        """Returns the outcome of each item of pytest -v, also as xdist prints it."""
        found = {}
        for line in out.splitlines():
            one = re.match(r"(test_\S+\.py::.*\]) (PASSED|FAILED|SKIPPED)", line)
            other = re.match(r"\[gw\d\] \[ *\d+%\] (PASSED|FAILED|SKIPPED) (test_\S+::.*\])", line)
            if one:
                found[one[1]] = one[2]
            elif other:
                found[other[2].rstrip()] = other[1]
        return found

    def report(self, name):
        validated = subprocess.run([LOSSGRID, "validate", self.path(name)], capture_output=True,
                                   text=True, check=False)
        self.assertEqual(validated.returncode, 0, validated.stdout + validated.stderr)
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    EXPECTED = {**{item: "SKIPPED" if "bf16" in item else "PASSED" for item in RIGHT_ITEMS},
                **{item: "FAILED" for item in WRONG_ITEMS}}

    def require_joined_report(self, name, out):
        report = self.report(name)
        self.assertEqual(report["summary"], {**dict.fromkeys(report["summary"], 0), "trials": 16,
                                             "passed": 10, "skipped": 2, "failed": 4})
        self.assertEqual(report["run"]["exit_code"], 10)
        self.assertEqual(report["run"]["status"], "complete")
        self.assertIn(f"lossgrid report: {name}", out)
        for trial in report["trials"]:  # parts that trials share are those of the right trial
            if trial["status"] != "skipped":
                case = report["shared"]["case"][trial["case"]]
                self.assertTrue(trial["id"].startswith(f"lens={case['parameters']['lens']} "))

    def test_every_trial_is_an_item_and_failures_show_what_is_wrong(self):
        self.write_tests()
        code, out = self.pytest("--lossgrid-report", "all.json")
        self.assertEqual(self.outcomes(out), self.EXPECTED, out)
        self.assertEqual(code, 1)
        self.assertEqual(len(self.runs()), 2)  # one for each suite object
        self.assertRegex(out, r"SKIPPED \[2\] .*: no bf16 here")
        failure = out.split("test_wrong[lens=3+2 vocab=96-tp2cp1] _")[1]
        failure = failure.split("\n", 1)[1].split("lossgrid report:")[0].strip().splitlines()
        self.assertEqual(failure[0], "failed: lens=3+2 vocab=96|tp2cp1|wrong|cpu")
        self.assertRegex(failure[1], r"^  reason: loss: ratio ")
        self.assertIn("  explanation: loss and grad_logits are 1.001", failure[2])
        self.assertRegex(failure[3], r"^  worst check: grad_logits, ratio \d.*, \d+ of \d+ elements")
        self.assertRegex(failure[4], r"^  worst element: rank \d, sequence \d, token \d, vocab id \d+: "
                                     r"got \S+, want \S+$")
        self.assertEqual(len(failure), 6)
        self.assertNotIn("Traceback", out)
        self.assertNotIn("_TrialFailed", out)
        again = failure[5].replace("  reproduce: lossgrid ", f"{LOSSGRID} ")
        self.assertNotEqual(again, failure[5])
        reproduced = subprocess.run(f"{again} --quiet", shell=True, cwd=self.folder, text=True,
                                    capture_output=True, check=False, env={
                                        **os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        self.assertEqual(reproduced.returncode, 10, reproduced.stdout + reproduced.stderr)
        self.assertIn(failure[4], reproduced.stdout)
        self.require_joined_report("all.json", out)

    def test_test_processes_of_xdist_run_a_share_each(self):
        self.write_tests()
        code, out = self.pytest("-n", "2", "--lossgrid-report", "new/all.json")
        self.assertEqual(self.outcomes(out), self.EXPECTED, out)
        self.assertEqual(code, 1)
        self.assertEqual(len(self.runs()), 4)
        self.require_joined_report("new/all.json", out)

    def test_only_selected_trials_run(self):
        self.write_tests("my_loss.py", "test_right.py")
        code, out = self.pytest("-k", "overflow and tp2cp2", "--lossgrid-report", "some.json")
        self.assertEqual((code, self.outcomes(out)), (0, {RIGHT_ITEMS[-1]: "PASSED"}), out)
        self.assertEqual([trial["id"] for trial in self.report("some.json")["trials"]],
                         ["lens=6+11+4 vocab=64 values=overflow|tp2cp2|mine|cpu"])
        code, out = self.pytest(RIGHT_ITEMS[0], "--lossgrid-report", "one.json")
        self.assertEqual((code, self.outcomes(out)), (0, {RIGHT_ITEMS[0]: "PASSED"}), out)
        self.assertEqual(self.report("one.json")["summary"]["trials"], 1)
        code, out = self.pytest(RIGHT_ITEMS[0], "--lossgrid-report", "one.json/all.json")
        self.assertEqual(code, 4, out)
        self.assertIn("lossgrid: --lossgrid-report one.json/all.json cannot be written: ", out)
        self.assertNotIn("Traceback", out)

    def test_the_first_failure_ends_the_run(self):
        self.write("test_slow.py", WRONG.replace("    gathered", "    import time; time.sleep(1)\n"
                                                 "    gathered", 1) +
                   '\ntest_slow = lossgrid.suite(wrong, suite="smoke")\n')
        code, out = self.pytest("-x", "--lossgrid-report", "begun.json")
        self.assertEqual((code, list(self.outcomes(out).values())), (1, ["FAILED"]), out)
        report = self.report("begun.json")
        self.assertEqual(report["run"]["status"], "partial")
        self.assertGreater(report["summary"]["not_run"], 15)

    def test_the_page_is_right(self):
        def text_of(path):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                return file.read()

        page = text_of("docs/pytest.md")
        self.write("my_loss.py", re.search(r"```python\n(.*?)```", text_of("README.md"), re.DOTALL)[1])
        self.write("test_my_loss.py", re.search(r"```python\n(.*?)```", page, re.DOTALL)[1])
        code, out = self.pytest("-k", "worked or overflow or long")
        self.assertEqual(code, 0, out)
        shown = re.search(r"```\n\$ pytest -v test_my_loss.py\n(.*?)```", page, re.DOTALL)[1]
        for line in shown.splitlines():
            if line != "...":
                self.assertIn(f"\n{line} ", out)

    def test_bad_input_is_one_line(self):
        self.write("my_loss.py", RIGHT)
        begin = "import lossgrid\nfrom my_loss import mine\n"
        arguments = {
            "suite": 'mine, suite="smok"', "grid": 'mine, suite="smoke", grids=["tp99cp1"]',
            "case": 'mine, cases=["lens=5 vocab=no"]', "option": 'mine, suite="smoke", options={"size": 1}',
            "neither": "mine", "function": 'print, suite="smoke"', "list": 'mine, suite=[1]'}
        for name, given in arguments.items():
            self.write(f"test_{name}.py", f"{begin}test_it = lossgrid.suite({given})\n")
        code, out = self.pytest("--continue-on-collection-errors")
        self.assertEqual(code, 1, out)
        for line in ("test_it: lossgrid: unknown suite 'smok'; did you mean 'smoke'?",
                     "test_it: lossgrid: grid tp99cp1: tp = 99 exceeds the vocabulary of 48",
                     "lossgrid.suite(mine, ...) needs either suite= or cases=",
                     "lossgrid.suite: print is not declared with @lossgrid.implementation",
                     "lossgrid.suite: suite=[1] is neither a text nor a list of texts"):
            self.assertIn(line, out)
        self.assertRegex(out, r"\ntest_it: lossgrid: .*'no'.*\n")
        self.assertRegex(out, r"\ntest_it: lossgrid: .*size.*\n")
        self.assertIn(f"{len(arguments)} errors", out)
        self.assertNotIn("/python/lossgrid/", out)  # no line of the package

    def test_a_hunt_is_one_item_that_fails_with_the_smallest_case(self):
        self.write("test_hunts.py", f'''{RIGHT}
test_right = lossgrid.hunt(mine, cases=60, seed=3, objectives="nll")
{WRONG.split("import torch.distributed as dist")[1]}
test_wrong = lossgrid.hunt(wrong, cases=40, seed=4, objectives=["nll"])
''')
        code, out = self.pytest()
        self.assertEqual(code, 1, out)
        self.assertRegex(out, r"test_hunts.py::test_right PASSED")
        self.assertRegex(out, r"test_hunts.py::test_wrong FAILED")
        self.assertRegex(out, r"\nhunt: seed 4, \d+ cases ")
        self.assertRegex(out, r"\n1\. (loss|grad_logits|logprobs): 1 trial of wrong\n")
        self.assertRegex(out, r"\n   smallest:  lossgrid run --load test_hunts.py .*--impl wrong")
        self.assertNotIn("Traceback", out)

    def test_bad_input_of_a_hunt_is_one_line(self):
        self.write("my_loss.py", RIGHT)
        begin = "import lossgrid\nfrom my_loss import mine\n"
        arguments = {"seconds": "mine, seconds=0", "cases": "mine, cases=1.5", "seed": "mine, seed=-1",
                     "function": "print", "objectives": "mine, objectives=[1]"}
        for name, given in arguments.items():
            self.write(f"test_{name}.py", f"{begin}test_it = lossgrid.hunt({given})\n")
        self.write("test_unknown.py", f'{begin}test_it = lossgrid.hunt(mine, cases=1, objectives="nlll")\n')
        code, out = self.pytest("--continue-on-collection-errors")
        self.assertEqual(code, 1, out)
        for line in ("lossgrid.hunt: seconds=0 is no number above 0",
                     "lossgrid.hunt: cases=1.5 is no whole number of at least 1",
                     "lossgrid.hunt: seed=-1 is no whole number of at least 0",
                     "lossgrid.hunt: print is not declared with @lossgrid.implementation",
                     "lossgrid.hunt: objectives=[1] is neither a text nor a list of texts",
                     "lossgrid: unknown objective 'nlll'"):
            self.assertIn(line, out)

    def test_an_executable_that_is_none_is_named(self):
        self.write_tests("my_loss.py", "test_right.py")
        for path, line in (("nowhere", "there is no executable nowhere"),
                           (shutil.which("true"), "is not lossgrid")):
            code, out = self.pytest("--lossgrid-executable", path)
            self.assertEqual(code, 2, out)
            self.assertRegex(out, rf"\ntest_mine: lossgrid: .*{line}")

    def test_a_run_that_dies_fails_the_trials_that_it_did_not_reach(self):
        self.write_tests("my_loss.py", "test_right.py")
        self.write("lossgrid", f'#!/bin/sh\ncase "$*" in *--list-trials) exec "{LOSSGRID}" "$@";; '
                               "esac\necho boom; kill -9 $$\n")
        code, out = self.pytest("-k", "overflow", "--lossgrid-report", "none.json")
        self.assertEqual((code, set(self.outcomes(out).values())), (1, {"FAILED"}), out)
        self.assertIn("lossgrid run ended before this trial: boom", out)
        self.assertFalse(os.path.exists(self.path("none.json")))


if __name__ == "__main__":
    unittest.main()
