#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/gpu with programs that stand for lossgrid, compute-sanitizer and Python. The one
for lossgrid reports a GPU or none, and fails on request."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "gpu")
STAND_IN = """#!/bin/sh
case "$*" in
  "list backends") echo "cuda           $GPU"; exit 0 ;;
esac
echo "called: $*"
case "$*" in
  *"$FAILS"*) exit 10 ;;
esac
"""
SANITIZER = """#!/bin/sh
echo "sanitizer: $*"
[ "$FAILS" != "$2" ]
"""
# It is asked for PyTorch.
PYTHON = """#!/bin/sh
exit "$NO_TORCH"
"""


class Gpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = os.path.join(self.folder, "out")
        self.stand_in("lossgrid", STAND_IN)
        self.stand_in("bin/compute-sanitizer", SANITIZER)
        self.stand_in("bin/python3", PYTHON)

    def stand_in(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_script(self, *arguments, gpu="NVIDIA H200, sm_90", fails="nothing at all", torch=True):
        environment = {**os.environ, "LOSSGRID_BUILD": self.folder, "GPU": gpu, "FAILS": fails,
                       "NO_TORCH": "0" if torch else "1",
                       "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        return subprocess.run([SCRIPT, *([self.out] if arguments else []), *arguments],
                              capture_output=True, text=True, check=False, env=environment)

    def test_without_a_gpu_it_is_skipped_with_the_reason(self):
        ended = self.run_script("bench", gpu="not here: no driver")
        self.assertEqual((ended.returncode, ended.stderr), (77, "gpu: skipped: no driver\n"))

    def test_usage(self):
        for arguments in ((), ("nonsense",)):
            ended = self.run_script(*arguments)
            self.assertEqual(ended.returncode, 64)
            self.assertTrue(ended.stderr.startswith("usage: scripts/gpu OUT-FOLDER"))

    def test_what_passes(self):
        ended = self.run_script("bench")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("called: bench --suite perf_gpu --backend cuda", ended.stdout)
        self.assertIn("gpu: bench: all is well", ended.stdout)

    def test_what_fails_is_named_and_the_rest_runs_all_the_same(self):
        ended = self.run_script("check", "bench", fails="--suite smoke")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertIn("called: replay", ended.stdout)
        self.assertIn("called: mutants --backend cuda", ended.stdout)
        self.assertIn("called: bench", ended.stdout)
        # There are no tests in the folder of the program that stands for lossgrid.
        self.assertTrue(ended.stdout.endswith("gpu: failed: ctest run_smoke\n"), ended.stdout)

    def test_sanitizers_run_one_after_the_other_whatever_the_first_finds(self):
        ended = self.run_script("sanitize", fails="memcheck")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        for tool in ("memcheck", "racecheck", "initcheck"):
            self.assertIn(f"sanitizer: --tool {tool} --error-exitcode 1 {self.folder}/lossgrid run "
                          "--suite smoke --backend cuda\n", ended.stdout)
        self.assertTrue(ended.stdout.endswith("gpu: failed: memcheck\n"), ended.stdout)

    def test_peers_are_timed_beside_lossgrid(self):
        ended = self.run_script("peers")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn(f"+ scripts/bench_peers --suite perf_gpu --backend cuda --report {self.out}/"
                      "perf_gpu_and_peers.json\n", ended.stdout)
        called = ended.stdout[ended.stdout.index("called: bench"):].splitlines()[0]
        self.assertIn("--python python3 --impl per_sequence,", called)
        self.assertIn(",torch_eager,", called)
        self.assertIn("--suite perf_gpu --backend cuda --report", called)

    def test_without_pytorch_peers_are_skipped(self):
        ended = self.run_script("peers", torch=False)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("peers: skipped: no PyTorch that sees a GPU here\n", ended.stdout)
        self.assertNotIn("called: bench", ended.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
