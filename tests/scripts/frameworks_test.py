#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the adapters of other frameworks and of the scoreboard: frameworks_test.py LOSSGRID. The
adapter of PyTorch runs; the table is made of small reports. Ends with 77 where PyTorch cannot be
imported."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from with_torch import ROOT, require_torch

PYTHON = require_torch()
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from scoreboard import environments, table
from scoreboard.verdicts import verdict_of

LOSSGRID = os.path.abspath(sys.argv.pop(1))
TORCH = os.path.join(ROOT, "impls/frameworks/torch_losses.py")
NEMO_RL = os.path.join(ROOT, "impls/frameworks/nemo_rl_losses.py")


def check(name, ratio, got, want, passed=False):
    return {"name": name, "ratio": ratio, "passed": passed, "beyond_bound": 1, "compared": 2,
            "worst": {"rank": 1, "sequence": 0, "got": got, "want": want}}


def trial(function, status, *checks, case="vocab=96", **more):
    return {"id": f"{case}|tp1cp1|{function}|cpu", "case": {"name": case}, "implementation": function,
            "status": status, "batch": {"valid_tokens": 4}, "checks": list(checks),
            "reproduce": f"lossgrid run --impl {function}", "details": {"packages": "verl 0.9.1"},
            "gradient_scale": {}, "relative_l2": {}, "invariants": [], "memory": [], **more}


class Verdicts(unittest.TestCase):
    def kind(self, *checks, **more):
        return verdict_of(trial("f", "failed", *checks, **more)).kind

    def test_by_status(self):
        for status, kind in (("passed", "right"), ("skipped", "unsupported"), ("error", "raises"),
                             ("timeout", "raises"), ("crashed", "raises"), ("not_run", "unsupported")):
            self.assertEqual(verdict_of(trial("f", status)).kind, kind)
        refused = trial("f", "failed", reason="skipped: it knows no TP")
        self.assertEqual(verdict_of(refused).kind, "unsupported")

    def test_a_tenth_is_the_limit_of_less_precise(self):
        for name, want, inside, outside in (
                ("loss", 10.0, 10.9, 11.1), ("logprobs", -0.5, -0.59, -0.61),
                ("logprobs", -40.0, -43.9, -44.1), ("metric.loss_min", 8e-6, 0.09, 0.11),
                ("entropy", 2.0, 2.19, 2.21)):
            self.assertEqual(self.kind(check(name, 50, inside, want)), "less precise", name)
            self.assertEqual(self.kind(check(name, 50, outside, want)), "wrong", name)

    def test_gradients(self):
        near, far = check("grad_logits", 9, 0.24, 0.25), check("grad_logits", 9, 0.2, 0.25)
        scale = {"gradient_scale": {"grad_logits": 1.001}}
        self.assertEqual(self.kind(near, **scale), "less precise")
        self.assertEqual(self.kind(far, **scale), "wrong")
        self.assertEqual(self.kind(near, gradient_scale={"grad_logits": 2.0}), "wrong")
        hidden = check("grad_hidden", 9, 3.0, 1e-6)  # of one element nothing follows
        scale = {"gradient_scale": {"grad_hidden": 1.0}}
        self.assertEqual(self.kind(hidden, relative_l2={"grad_hidden": 0.01}, **scale), "less precise")
        self.assertEqual(self.kind(hidden, relative_l2={"grad_hidden": 0.7}, **scale), "wrong")
        self.assertEqual(self.kind(check("grad_logits_bias", 9, 2.0, 1.0),
                                   gradient_scale={"grad_logits": 2.0}), "wrong")

    def test_what_is_not_finite_or_breaks_an_invariant_is_wrong(self):
        self.assertEqual(self.kind(check("loss", None, None, 1.0)), "wrong")
        near = check("loss", 3, 1.01, 1.0)
        for name, kind in (("gradient_rows_sum_to_zero", "less precise"),
                           ("masked_rows_are_zero", "wrong")):
            broken = [{"name": name, "status": "failed"}, {"name": "passes"}]
            self.assertEqual(self.kind(near, invariants=broken), kind)
        self.assertEqual(self.kind(invariants=[{"name": "same_bits", "status": "failed"}]), "wrong")


EMPTY_PARTS = {"shared": {}, "defaults": {"trial": {"checks": []}, "checks": {}}}


class Table(unittest.TestCase):
    REPORT = {"trials": [
        trial("f", "passed"), trial("f", "failed", check("loss", 1234.5, 10.5, 10.0),
                                    case="vocab=96 dtype=bf16"),
        trial("g", "error", reason="rank 0: ValueError: a|b"), trial("g", "skipped", reason="no TP"),
        trial("fused", "passed")], **EMPTY_PARTS}

    def test_a_section(self):
        lines = table.section("verl", self.REPORT, {"f": {"time": 3.21, "memory": None}},
                              table.packages_of({}, self.REPORT))
        self.assertEqual(lines, [
            "### verl", "", "verl 0.9.1.", "",
            "| function | f32 | bf16 | right | time | memory |", "|---|---|---|---|---|---|",
            "| `f` | right | less precise, 1e3 x | 1 of 2 | 3.2 | - |",
            "| `g` | **raises** | unsupported | 0 of 1 | - | - |", "",
            "- `f`, less precise, 1e3 x: loss at rank 1, sequence 0: got 10.5, want 10",
            "  `lossgrid run --impl f`",
            "- `g`, raises: rank 0: ValueError: a\\|b", "  `lossgrid run --impl g`"])

    def test_costs_are_relative_to_the_own_implementation_of_the_same_case(self):
        row = {"phase": "forward_backward", "status": "timed"}
        bench = {"timings": [{"rows": [
            {**row, "implementation": "f", "median_ns": 30}, {**row, "implementation": "fused", "median_ns": 10},
            {**row, "implementation": "g", "median_ns": 7, "phase": "forward"}]}]}
        peak = {"phase": "backward", "measured_peak_bytes": 4000}
        run = {"trials": [trial("f", "failed", memory=[{**peak, "measured_peak_bytes": 8000}]),
                          trial("h", "passed", memory=[{**peak, "measured_peak_bytes": 8}]),
                          trial("fused", "passed", memory=[peak])], **EMPTY_PARTS}
        self.assertEqual(table.costs_of(bench, run), {"f": {"time": 3.0, "memory": 2.0}})

    def test_a_framework_that_cannot_run(self):
        self.assertEqual(table.refused("areal", "x_losses.py: no package")[2],
                         "Cannot be run here: x_losses.py: no package.")
        self.assertEqual(table.refused("areal", None)[2], "Has not run yet: `scripts/frameworks areal`.")

    def test_every_framework_has_an_adapter(self):
        for name in environments.versions()["frameworks"]:
            self.assertTrue(os.path.exists(os.path.join(ROOT, environments.ADAPTERS,
                                                        f"{name}_losses.py")), name)


class Adapter(unittest.TestCase):
    def test_losses_of_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            ended = subprocess.run(
                [LOSSGRID, "run", "--load", TORCH, "--python", PYTHON, "--impl",
                 "torch_cross_entropy,torch_cross_entropy_by_token,torch_loss_parallel,"
                 "torch_linear_cross_entropy", "--grid", "tp1cp1,tp2cp1", "--quiet", "--report", path,
                 "--case", "lens=5+8 vocab=96 poison=none dtype=[f32,bf16]",
                 "--case", "lens=5+8 vocab=96 hidden=16 poison=none"],
                capture_output=True, text=True, check=False)
            self.assertEqual(ended.returncode, 10, ended.stdout + ended.stderr)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        functions = table.functions_of(report)
        self.assertEqual({name: (one.worst("f32").kind, one.worst("bf16").kind)
                          for name, one in functions.items()}, {
            "torch_cross_entropy": ("right", "less precise"),
            "torch_cross_entropy_by_token": ("right", "less precise"),
            "torch_loss_parallel": ("right", "less precise"),
            "torch_linear_cross_entropy": ("right", "unsupported")})
        self.assertRegex(table.packages_of(report), r"^torch \d+\.\d+")

    def test_nemo_rl_without_its_source_folder_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for named, line in (("", "NEMO_RL_SOURCE is not set: it names a folder with the source of nemo_rl"),
                                (folder, f"NEMO_RL_SOURCE={folder} has no nemo_rl/__init__.py")):
                ended = subprocess.run(
                    [LOSSGRID, "list", "implementations", "--load", NEMO_RL, "--python", PYTHON],
                    env={**os.environ, "NEMO_RL_SOURCE": named}, capture_output=True, text=True,
                    check=False)
                self.assertEqual((ended.returncode, ended.stderr),
                                 (65, f"lossgrid: nemo_rl_losses.py: {line}\n"))


if __name__ == "__main__":
    unittest.main()
