#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/test with programs that stand for those that it calls."""

import fnmatch
import glob
import os
import re
import shutil
import sys
import unittest

sys.dont_write_bytecode = True

from stand_ins import ScriptTest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CTEST = """case "$*" in *{failing}*) failed=1 ;; esac
echo "1/1 Test #1: one"
echo "100% tests passed, 0 tests failed out of 1"
echo "Total Test time (real) = 1 sec"
exit ${{failed:-0}}
"""


class Test(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("test")
        os.makedirs(os.path.join(self.root, "tests"))
        shutil.copy(os.path.join(ROOT, "tests", "nightly_tests.txt"), os.path.join(self.root, "tests"))
        for script in ("setup", "fuzz", "hunts"):
            self.stand_in(f"scripts/{script}")
        self.stand_in("scripts/build", 'mkdir -p "build/${1#ci-}"; echo "built $1"')
        self.stand_in("scripts/times", 'echo "times $*"')
        self.stand_in("scripts/check_skips", 'echo "skipped: none"')
        self.fail_in("nothing")

    def fail_in(self, preset):
        self.stand_in("bin/ctest", CTEST.format(failing=f"preset?{preset}"))

    def ctest_call(self, preset):
        found, = (call for call in self.calls("ctest") if f"--preset {preset} " in call)
        return found

    def test_all_presets_run_and_the_summary_is_last(self):
        ended = self.run_script("test")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual([call.split()[1] for call in self.calls("build")], ["ci-release", "ci-asan", "ci-clang"])
        self.assertEqual([call.split()[2] for call in self.calls("ctest")], ["ci-release", "ci-asan", "ci-clang"])
        self.assertEqual(self.calls("fuzz"), ["fuzz --seconds 10"])
        self.assertEqual(self.calls("hunts"), ["hunts --seconds 40"])
        self.assertEqual(ended.stdout.splitlines()[-4:], [
            "times release asan clang fuzz", "skipped: none", "100% tests passed, 0 tests failed out of 1",
            "Total Test time (real) = 1 sec"])

    def test_what_runs_in_shards_does_not_run_alone(self):
        self.run_script("test")
        release = self.ctest_call("ci-release")
        self.assertIn(" -C Shards -LE ^(core|device|comm|problem|loss|verify|measure|planner|reports|runner|impls)$ ",
                      release)
        self.assertIn(r" -E ^(scripts\.extending_builds|external\.ExternalWholeSuites\..*)$ ", release)
        self.assertIn(" -C Shards -L ^(comm|runner|impls|fibers)_shards$ ", self.ctest_call("ci-clang"))

    def test_what_the_address_sanitizer_runs_is_left_out_of_release(self):
        self.run_script("test")
        release, asan, _ = self.calls("build")
        left_out = release.partition(" -DLOSSGRID_TESTS_LEFT_OUT=")[2].split(";")
        self.assertIn("problem", left_out)
        self.assertGreaterEqual(set(asan.split()), {f"lossgrid_test_{folder}" for folder in left_out})

    def test_no_test_is_left_out_twice(self):
        def list_in(path, pattern):
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                return re.search(pattern, file.read(), re.MULTILINE | re.DOTALL)[1]

        cmake = "tests/CMakeLists.txt"
        never = list_in(cmake, r"^set\(never_sanitized\s([^)]*)\)").split()
        kept = list_in(cmake, r"^set\(without_sanitizer\s([^)]*)\)").split() + never
        excluded = list_in("scripts/test", r"^asan_excluded='(.*?)'$").split(":")
        count, twice = 0, []
        for folder in list_in("scripts/test", r"once='(\w.*?)'$").split(";"):
            for path in glob.glob(f"{folder}/**/*_test.cpp", root_dir=os.path.join(ROOT, "tests"), recursive=True):
                with open(os.path.join(ROOT, "tests", path), encoding="utf-8") as file:
                    names = [".".join(pair) for pair in re.findall(r"^\w*TEST\w*\(\s*(\w+),\s*(\w+)\)", file.read(), re.MULTILINE)]
                count += len(names)
                if path not in kept:
                    twice += [name for name in names for pattern in excluded if fnmatch.fnmatchcase(name, pattern)]
        self.assertGreater(count, 900)
        self.assertEqual(twice, [])
        for path in kept:
            self.assertTrue(path.startswith("$") or os.path.exists(os.path.join(ROOT, "tests", path)), path)

    def test_fast_is_the_release_preset_without_what_takes_minutes(self):
        ended = self.run_script("test", "--fast")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        build, = self.calls("build")
        self.assertTrue(build.endswith(" -DLOSSGRID_TESTS_LEFT_OUT="), build)
        self.assertRegex(self.ctest_call("ci-release"), r" -E \^\(scripts\\\.extending_builds\|.*\|mutants\\\.\.\*\(OtherSeeds")
        self.assertEqual(self.calls("fuzz"), [])
        self.assertIn("times release\n", ended.stdout)

    def test_a_failure_in_any_preset_is_one_of_all(self):
        for preset, status in (("ci-release", 1), ("ci-asan", 1), ("ci-clang", 1)):
            self.fail_in(preset)
            ended = self.run_script("test")
            self.assertEqual(ended.returncode, status, preset)
        self.assertIn("test: preset ci-clang failed", ended.stderr)
        self.fail_in("ci-release")
        self.assertTrue(self.run_script("test").stdout.endswith("Total Test time (real) = 1 sec\n"))
        self.fail_in("nothing")
        self.stand_in("scripts/build", 'mkdir -p "build/${1#ci-}"; [ "$1" != ci-clang ] || { echo no such name; exit 1; }')
        ended = self.run_script("test")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("no such name", ended.stderr)

    def test_a_finding_of_fuzz_or_hunts_is_a_failure_of_all(self):
        self.stand_in("scripts/fuzz", "echo fuzz: suite: found it", 1)
        ended = self.run_script("test")
        self.assertEqual((ended.returncode, ended.stderr), (1, "fuzz: suite: found it\n"))
        self.stand_in("scripts/fuzz")
        self.stand_in("scripts/hunts", status=10)
        ended = self.run_script("test")
        self.assertEqual((ended.returncode, ended.stderr), (1, "test: a hunt found a case that fails\n"))

    def test_skips_that_are_not_allowed_fail(self):
        self.stand_in("scripts/check_skips", "echo a skip >&2", 1)
        ended = self.run_script("test", "--fast")
        self.assertEqual((ended.returncode, ended.stderr), (1, "a skip\n"))

    def test_changed_goes_to_its_script(self):
        self.stand_in("scripts/changed")
        self.assertEqual(self.run_script("test", "--changed", "HEAD~1", "--list").returncode, 0)
        self.assertEqual(self.calls(), ["changed HEAD~1 --list"])

    def test_bad_arguments(self):
        for arguments in (("--slow",), ("--fast", "more"), ("more",)):
            self.assertEqual(self.run_script("test", *arguments).returncode, 64)
        self.assertEqual(os.path.exists(self.calls_path), False)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
