#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/bench_peers hands everything to `lossgrid bench`, for which a program stands."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
from stand_ins import ScriptTest

HAS_TORCH, NO_TORCH = "exit 0", "exit 1"


class BenchPeers(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("bench_peers")
        self.stand_in("build/release/lossgrid", status=10)
        self.stand_in("bin/python3", HAS_TORCH)

    def bench(self, *arguments):
        """Returns the arguments that lossgrid got."""
        ended = self.run_script("bench_peers", *arguments)
        self.assertEqual(ended.returncode, 10, ended.stderr)
        return self.calls("lossgrid")[-1]

    def test_every_file_is_loaded_and_every_peer_runs_beside_lossgrid(self):
        called = self.bench()
        for file in ("torch_cross_entropy", "torch_linear_cross_entropy", "liger", "apple_cce",
                     "quack_cross_entropy"):
            self.assertIn(f"--load python/peers/{file}.py ", called)
        self.assertIn(" --suite peers --impl per_sequence,fused,", called)
        self.assertIn("linear_ce,linear_ce_onepass,torch_eager,torch_compiled,", called)
        self.assertTrue(called.endswith(",liger,liger_linear,cce,cce_unfiltered,quack,quack_in_place"), called)

    def test_what_is_named_takes_the_place_of_the_default(self):
        self.assertTrue(self.bench("--suite", "perf_gpu", "--backend", "cuda").endswith(
            "quack_in_place --suite perf_gpu --backend cuda"))
        called = self.bench("--case", "lens=5 vocab=9", "--impl=fused,liger")
        self.assertTrue(called.endswith("--python python3 --case lens=5 vocab=9 --impl=fused,liger"))
        self.assertEqual(called.count("--impl"), 1)
        self.assertEqual(self.bench("--python", "/opt/python").count("--python"), 1)

    def test_the_interpreter_is_one_that_has_pytorch(self):
        self.stand_in("bin/python3", NO_TORCH)
        self.stand_in("build/venv/bin/python", HAS_TORCH)
        self.assertIn("--python build/venv/bin/python ", self.bench())
        os.remove(os.path.join(self.root, "build/venv/bin/python"))
        ended = self.run_script("bench_peers")
        self.assertEqual((ended.returncode, ended.stderr), (
            77, "bench_peers: skipped: neither python3 nor build/venv/bin/python has PyTorch\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
