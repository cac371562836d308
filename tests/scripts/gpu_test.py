#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu with a program that stands for lossgrid, which says that there is a GPU, or is not,
and fails where it is told to."""

import os
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


class Gpu(unittest.TestCase):
    def run_script(self, *arguments, gpu="NVIDIA H200, sm_90", fails="nothing at all"):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "lossgrid")
            with open(program, "w", encoding="utf-8") as file:
                file.write(STAND_IN)
            os.chmod(program, 0o755)
            out = [os.path.join(folder, "out"), *arguments] if arguments else []
            return subprocess.run([SCRIPT, *out], capture_output=True, text=True, check=False,
                                  env={**os.environ, "LOSSGRID_BUILD": folder, "GPU": gpu,
                                       "FAILS": fails})

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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
