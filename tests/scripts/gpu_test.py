#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/gpu with programs that stand for lossgrid, its tests, compute-sanitizer and Python.
The one for lossgrid reports a GPU or none, and fails or takes its time on request."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "gpu")
STAND_IN = """#!/bin/sh
case "$*" in
  "list backends") echo "cuda           $GPU"; echo "cuda_emulated  this processor"; exit 0 ;;
  "list mutants") for k in 1 2 3 4 5 6 7 8.5 9; do echo "mutant/wrong_$k   M$k fused: wrong"; done; exit 0 ;;
esac
echo "called: $*"
case "$*" in
  *"$SLOW"*) echo begun >>"$BEGUN"; sleep 5 ;;
esac
case "$*" in
  *"$FAILS"*) exit 10 ;;
esac
"""
TESTS = """#!/bin/sh
echo "tests: $* of $LOSSGRID_SOURCE_DIR"
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
        self.stand_in("tests/test_gpu", TESTS)
        self.stand_in("tests/test_device", TESTS)
        self.stand_in("bin/compute-sanitizer", SANITIZER)
        self.stand_in("bin/python3", PYTHON)

    def stand_in(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_script(self, *arguments, gpu="NVIDIA H200, sm_90", fails="nothing at all", slow="nothing",
                   torch=True, script=SCRIPT, build=True):
        environment = {**os.environ, "GPU": gpu, "FAILS": fails, "SLOW": slow,
                       "BEGUN": os.path.join(self.folder, "begun"), "NO_TORCH": "0" if torch else "1",
                       "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        environment.pop("LOSSGRID_BUILD", None)
        if build:
            environment["LOSSGRID_BUILD"] = self.folder
        return subprocess.run([script, *arguments], capture_output=True, text=True, check=False,
                              env=environment)

    def run_stages(self, *stages, **options):
        return self.run_script(self.out, *stages, **options)

    def log(self, name):
        with open(os.path.join(self.out, name + ".log"), encoding="utf-8") as file:
            return file.read()

    def test_without_a_gpu_it_is_skipped_with_the_reason(self):
        ended = self.run_stages("bench", gpu="not here: no driver")
        self.assertEqual((ended.returncode, ended.stderr), (77, "gpu: skipped: no driver\n"))

    def test_usage(self):
        for arguments in ((), (self.out, "nonsense"), ("--seconds", "0", self.out), ("--seconds",), ("--jobs", "0", self.out),
                          ("--nonsense", "1"), ("--pack", "file.zip"), ("--pack", "a.tar.xz", "b")):
            ended = self.run_script(*arguments)
            self.assertEqual(ended.returncode, 64, arguments)
            self.assertTrue(ended.stderr.startswith("usage: scripts/gpu [--seconds N]"))

    def test_what_passes(self):
        ended = self.run_stages("bench")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("called: bench --suite perf_gpu --backend cuda --report", ended.stdout)
        self.assertIn("gpu: bench: all is well", ended.stdout)

    def test_what_fails_is_named_and_the_rest_runs_all_the_same(self):
        ended = self.run_stages("tests", "suites", "mutants", "bench", fails="--suite smoke")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertIn("tests: --gtest_filter=*/cuda of ", ended.stdout)
        self.assertIn("called: replay", ended.stdout)
        self.assertIn("called: run --suite layouts --backend cuda --require cuda --report", ended.stdout)
        self.assertIn("called: bench", ended.stdout)
        self.assertTrue(ended.stdout.endswith("gpu: failed: smoke\n"), ended.stdout)

    def test_every_mutant_is_in_one_of_eight_parts(self):
        self.assertEqual(self.run_stages("mutants").returncode, 0)
        self.assertIn("--impl mutant/wrong_1,mutant/wrong_9\n", self.log("mutants_0"))
        self.assertIn("--impl mutant/wrong_8.5\n", self.log("mutants_7"))

    def test_steps_that_have_ended_are_not_run_again_and_stay_failed(self):
        self.run_stages("tests", "bench", fails="perf_gpu")
        ended = self.run_stages("tests", "bench")
        self.assertEqual((ended.returncode, ended.stdout), (1, ended.stdout))
        self.assertNotIn("+ ", ended.stdout)
        self.assertTrue(ended.stdout.endswith("gpu: failed: perf_gpu\n"), ended.stdout)

    def test_when_the_time_is_over_the_same_command_goes_on(self):
        arguments = ("--seconds", "1", self.out, "bench", "tests")
        ended = self.run_script(*arguments, slow="bench")
        self.assertEqual(ended.returncode, 75, ended.stdout)
        self.assertTrue(ended.stdout.endswith(
            "gpu: 1 s are over; left: perf_gpu tests device; the same command goes on\n"), ended.stdout)
        with open(os.path.join(self.out, "perf_gpu.json.partial.jsonl"), "w", encoding="utf-8"):
            pass
        ended = self.run_stages("bench", "tests")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn(f"--resume {self.out}/perf_gpu.json --report", self.log("perf_gpu"))

    def test_a_step_that_takes_all_of_the_time_has_failed(self):
        ended = self.run_script("--seconds", "4", self.out, "mutants", slow="wrong_1,")
        self.assertEqual(ended.returncode, 75, ended.stdout)
        with open(os.path.join(self.out, "mutants_0.status"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "124\n")
        ended = self.run_stages("mutants")
        self.assertEqual(ended.returncode, 1)
        self.assertTrue(ended.stdout.endswith("gpu: failed: mutants_0\n"), ended.stdout)

    def test_steps_run_side_by_side_and_timings_alone(self):
        """Each part of the mutants takes 5 seconds; bench begins when all have ended."""
        begun = time.monotonic()
        ended = self.run_script("--jobs", "8", self.out, "mutants", "bench", slow="mutant/")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertLess(time.monotonic() - begun, 20)
        lines = ended.stdout.splitlines()
        bench = next(k for k, line in enumerate(lines) if line.startswith("+ ") and "bench" in line)
        parts = [k for k, line in enumerate(lines) if line.startswith("called: mutants")]
        self.assertEqual(len(parts), 8)
        self.assertLess(max(parts), bench)

    def test_steps_side_by_side_share_the_gpu_by_a_service_that_ends_before_timings(self):
        calls = os.path.join(self.folder, "mps")
        self.stand_in("bin/nvidia-cuda-mps-control", f"""#!/bin/sh
[ -d "$CUDA_MPS_PIPE_DIRECTORY" ] || exit 1
[ "$1" = -d ] && echo begins >>{calls} || echo "$(cat), $(ls {self.out}/*.status | wc -l) steps" >>{calls}
""")
        ended = self.run_script("--jobs", "8", self.out, "mutants", "bench")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        with open(calls, encoding="utf-8") as file:
            self.assertEqual(file.read(), "begins\nquit, 8 steps\n")
        os.remove(calls)
        self.assertEqual(self.run_script(self.out, "mutants").returncode, 0)
        self.assertFalse(os.path.exists(calls))

    def test_of_steps_side_by_side_each_failure_is_named(self):
        ended = self.run_script("--jobs", "3", self.out, "suites", "mutants", fails="--suite linear")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertTrue(ended.stdout.endswith("gpu: failed: linear\n"), ended.stdout)

    def test_steps_side_by_side_that_take_all_of_the_time_have_failed(self):
        ended = self.run_script("--seconds", "4", "--jobs", "2", self.out, "mutants", slow="mutant/")
        self.assertEqual(ended.returncode, 75, ended.stdout)
        self.assertTrue(ended.stdout.endswith(
            "left: " + " ".join(f"mutants_{k}" for k in range(2, 8)) +
            "; the same command goes on\n"), ended.stdout)

    def test_a_rehearsal_runs_on_emulated_devices(self):
        ended = self.run_script("--backend", "cuda_emulated", self.out, "tests", "suites",
                                gpu="not here: no driver")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("tests: --gtest_filter=*/cuda_emulated of ", ended.stdout)
        self.assertIn("called: run --suite smoke --backend cuda_emulated --report", ended.stdout)

    def test_a_pack_runs_what_is_in_it(self):
        pack = os.path.join(self.folder, "pack")
        for name in ("bin/lossgrid", "bin/test_gpu", "bin/test_device"):
            self.stand_in(f"pack/{name}", STAND_IN if name == "bin/lossgrid" else TESTS)
        os.mkdir(os.path.join(pack, "scripts"))
        shutil.copy(SCRIPT, os.path.join(pack, "scripts", "gpu"))
        ended = self.run_script(self.out, "tests", "bench", script=f"{pack}/scripts/gpu", build=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("+ bin/test_device --gtest_filter=-GpuState.*\n", ended.stdout)
        self.assertIn(f"tests: --gtest_filter=-GpuState.* of {pack}\n", ended.stdout)
        self.assertIn("+ bin/lossgrid bench", ended.stdout)

    def test_sanitizers_run_one_after_the_other_whatever_the_first_finds(self):
        ended = self.run_stages("sanitize", fails="memcheck")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        for tool in ("racecheck", "synccheck", "initcheck"):
            self.assertIn(f"sanitizer: --tool {tool} --error-exitcode 1 {self.folder}/lossgrid run "
                          "--suite smoke --backend cuda\n", ended.stdout)
        self.assertIn("sanitizer: --tool memcheck --track-stream-ordered-races all --error-exitcode 1 "
                      f"{self.folder}/tests/test_gpu --gtest_filter=*ShapesThatDivideNothing/cuda\n",
                      ended.stdout)
        self.assertTrue(ended.stdout.endswith("gpu: failed: memcheck_shapes memcheck_smoke\n"),
                        ended.stdout)

    def test_peers_are_timed_beside_lossgrid(self):
        ended = self.run_stages("peers")
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn(f"+ scripts/bench_peers --suite perf_gpu --backend cuda --report {self.out}/"
                      "perf_gpu_and_peers.json\n", ended.stdout)
        called = ended.stdout[ended.stdout.index("called: bench"):].splitlines()[0]
        self.assertIn("--python python3 --impl per_sequence,", called)
        self.assertIn(",torch_eager,", called)
        self.assertIn("--suite perf_gpu --backend cuda --report", called)

    def test_without_pytorch_peers_are_skipped(self):
        ended = self.run_stages("peers", torch=False)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("peers: skipped: no PyTorch that sees a GPU here\n", ended.stdout)
        self.assertNotIn("called: bench", ended.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
