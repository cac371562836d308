#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/arm with programs that stand for apt-get, dpkg, the build and the emulator."""

import os
import sys
import unittest

sys.dont_write_bytecode = True

from stand_ins import ScriptTest


class Arm(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("arm")
        for program in ("scripts/setup", "scripts/build", "bin/dpkg"):
            self.stand_in(program)
        self.stand_in("bin/apt-get", """
case "$*" in
  *--download-only*) touch build/arm_apt/cache/archives/library.deb ;;
esac""")
        self.stand_in("bin/qemu-aarch64", "echo 6 passed; echo '[  PASSED  ] 6 tests.'")
        os.makedirs(os.path.join(self.root, "tests/golden"))
        for name in ("one", "two"):
            with open(os.path.join(self.root, f"tests/golden/{name}.safetensors"), "wb"):
                pass

    def emulated(self):
        return [call.split("arm_root ")[1].split()[:3] for call in self.calls("qemu-aarch64")]

    def test_libraries_are_fetched_once_and_all_runs_in_emulation(self):
        ended = self.run_script("arm")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.calls("setup"), ["setup arm"])
        self.assertEqual(len(self.calls("dpkg")), 1)
        for call in self.calls("apt-get"):  # never the lists and packages of the system
            self.assertIn("APT::Architecture=arm64", call)
            self.assertIn("build/arm_apt", call)
        lossgrid = "build/arm/lossgrid"
        self.assertEqual(self.emulated()[:3],
                         [[lossgrid, "run", "--suite"],
                          [lossgrid, "replay", "tests/golden/one.safetensors"],
                          [lossgrid, "replay", "tests/golden/two.safetensors"]])
        self.assertEqual([call[0] for call in self.emulated()[3:]],
                         [f"build/arm/tests/test_{part}" for part in ("impls", "verify", "problem")])
        self.assertEqual(self.run_script("arm").returncode, 0)
        self.assertEqual(len(self.calls("dpkg")), 1)

    def test_the_first_failure_ends_it(self):
        for failing in ("run", "replay", "test_impls", "test_verify", "test_problem"):
            self.stand_in("bin/qemu-aarch64",
                          "echo 6 passed; echo '[  PASSED  ] 6 tests.'\n"
                          f'case "$*" in *{failing}*) exit 10 ;; esac')
            with self.subTest(failing):
                self.assertEqual(self.run_script("arm").returncode, 10)
                self.assertIn(failing, self.calls("qemu-aarch64")[-1])

    def test_a_filter_that_matches_no_test_is_a_failure(self):
        self.stand_in("bin/qemu-aarch64", "echo 6 passed; echo '[  PASSED  ] 0 tests.'")
        self.assertEqual(self.run_script("arm").returncode, 1)
        self.assertIn("test_impls", self.calls("qemu-aarch64")[-1])

    def test_an_archive_that_cannot_be_read_is_tried_again_the_next_time(self):
        self.stand_in("bin/apt-get", status=100)
        self.assertEqual(self.run_script("arm").returncode, 100)
        self.assertEqual(self.emulated(), [])
        self.stand_in("bin/apt-get", "touch build/arm_apt/cache/archives/library.deb")
        self.assertEqual(self.run_script("arm").returncode, 0)

    def test_it_takes_no_arguments(self):
        ended = self.run_script("arm", "all")
        self.assertEqual((ended.returncode, ended.stderr), (64, "usage: scripts/arm\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
