#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/changed, and of `scripts/test --changed`: what files reach, in a small repository and in this
one, and what is built and run for it."""

import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from stand_ins import ScriptTest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

FILES = {
    "harness/verify/truth/sums.cpp": "",
    "harness/verify/bounds.h": "",
    "harness/cli/commands/bench_command.cpp": "",
    "harness/cli/session.cpp": "",
    "harness/cli/launcher.cpp": "",
    "harness/comm/mpi/mpi_rank.cpp": "",
    "impls/kernels/cuda/rows.cu": "",
    "impls/mutants/sum_mutants.cpp": '.name = "half_a_sum",\n.name = "no_sum",\n',
    "include/lossgrid/plugin.h": "",
    "impls/plugins/loss.c": "#include <x>\n#include \"lossgrid/plugin.h\"\n",
    "python/lossgrid/cost.py": "",
    "python/lossgrid/views.py": "",
    "python/tests/test_cost.py": "",
    "python/tests/test_batch.py": "from lossgrid.views import a\n",
    "scripts/tidy": "",
    "scripts/tables/rows.py": "",
    "docs/page.md": "",
    "README.md": "",
    "CMakeLists.txt": "",
    "LICENSE": "",
    "cases/ci.json": "{}",
    "tests/verify/truth/sums_test.cpp": 'TEST(Sums, A) {}\nTEST_P(MoreSums, B) {}\n#include "helper.h"\n',
    "tests/verify/truth/other_test.cpp": "TEST_F(Other, A) {}\n",
    "tests/verify/checks/checks_test.cpp": "TEST(\n    Checks, A) {}\n",
    "tests/verify/helper.h": "",
    "tests/cli/bench_test.cpp": '#include "process.h"\nTEST(Bench, A) {}\n',
    "tests/cli/teams_test.cpp": '#include "process.h"\nTEST(Teams, A) {}  // launcher, --suite ci\n',
    "tests/cli/progress_test.cpp": "TEST(Progress, A) {}\n",
    "tests/mpi/mpi_test.cpp": "TEST(Mpi, A) {}\n",
    "tests/fibers/fibers_test.cpp": "TEST(Fibers, A) {}\n",
    "tests/impls/kernels/rows_test.cpp": "TEST(Rows, A) {}\n",
    "tests/mutants/score_test.cpp": "TEST(Score, A) {}  // --suite ci\n",
    "tests/plugins/loading_test.cpp": '#include "plugins.h"\nTEST(Loading, A) {}\n',
    "tests/scripts/tidy_test.py": "",
    "tests/scripts/tables_test.py": "from tables import rows\n",
}


class SmallRepository(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("changed")
        self.copy_script("test")
        for path, text in FILES.items():
            self.write(path, text)
        self.git("init", "-q")
        self.write(".gitignore", "calls\nbin/\nbuild/\n")
        self.commit()

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=self.root, check=True,
                       stdout=subprocess.DEVNULL)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "more")

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def reached(self, path):
        """Returns what the script lists for one file."""
        ended = self.run_script("changed", "--list", "--files", path)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        return ended.stdout.strip().removeprefix(f"{path}: ")


class Reach(SmallRepository):
    def test_of_each_kind_of_file(self):
        nothing, everything = "nothing (scripts/test --fast)", "everything (scripts/test --fast)"
        for path, wanted in (
                ("harness/verify/truth/sums.cpp", "verify MoreSums Other Sums"),
                ("harness/verify/bounds.h", "verify Checks MoreSums Other Sums"),
                ("harness/cli/commands/bench_command.cpp", "cli Bench Progress"),
                ("harness/cli/launcher.cpp", "cli Progress Teams"),
                ("harness/comm/mpi/mpi_rank.cpp", "mpi Mpi"),
                ("impls/kernels/cuda/rows.cu", "fibers Fibers; impls Rows"),
                ("impls/mutants/sum_mutants.cpp", "mutant/half_a_sum; mutant/no_sum"),
                ("include/lossgrid/plugin.h", "plugins Loading"),
                ("python/lossgrid/cost.py", "python/tests/test_cost.py"),
                ("python/lossgrid/views.py", "python/tests/test_batch.py"),
                ("python/tests/test_cost.py", "python/tests/test_cost.py"),
                ("scripts/tidy", "tests/scripts/tidy_test.py"),
                ("scripts/tables/rows.py", "tests/scripts/tables_test.py"),
                ("tests/scripts/tidy_test.py", "tests/scripts/tidy_test.py"),
                ("tests/verify/truth/other_test.cpp", "verify Other"),
                ("tests/verify/helper.h", "verify MoreSums Sums"),
                ("tests/mutants/score_test.cpp", "mutants Score"),
                ("docs/page.md", "docs/page.md"), ("README.md", "README.md"),
                ("cases/ci.json", "cli Teams"),  # not the suites of tests/mutants, which take minutes
                ("LICENSE", nothing), ("CMakeLists.txt", everything)):
            self.assertEqual(self.reached(path), wanted, path)

    def test_files_are_those_that_differ_from_the_revision(self):
        def listed(*arguments):
            ended = self.run_script("test", "--changed", *arguments, "--list")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            return [line.split(":")[0] for line in ended.stdout.splitlines()]
        self.assertEqual(listed(), [])
        self.write("harness/verify/truth/sums.cpp", "int changed;")
        self.commit()
        self.write("harness/verify/truth/new.cpp", "")
        self.write("scripts/tidy", "changed")
        self.assertEqual(listed(), ["harness/verify/truth/new.cpp", "scripts/tidy"])
        self.assertEqual(listed("HEAD~1"), ["harness/verify/truth/new.cpp", "harness/verify/truth/sums.cpp",
                                            "scripts/tidy"])
        ended = self.run_script("test", "--changed", "no-such-revision", "--list")
        self.assertEqual(ended.returncode, 65)
        self.assertIn("changed: git diff --name-only no-such-revision", ended.stderr)

    def test_of_a_test_that_is_gone_those_beside_it_are_reached(self):
        os.remove(os.path.join(self.root, "tests/verify/truth/other_test.cpp"))
        self.assertEqual(self.reached("tests/verify/truth/other_test.cpp"), "verify MoreSums Sums")

    def test_bad_arguments(self):
        self.assertEqual(self.run_script("changed", "--no-such-flag").returncode, 64)


class Run(SmallRepository):
    def setUp(self):
        super().setUp()
        self.stand_in("scripts/build")
        self.stand_in("bin/ctest")

    def test_what_is_reached_is_built_and_run(self):
        self.stand_in("tests/scripts/tidy_test.py")
        ended = self.run_script("changed", "--files", "harness/verify/truth/sums.cpp", "scripts/tidy")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        build, tests, script = self.calls()
        self.assertTrue(build.startswith("build ci-release -DLOSSGRID_TESTS=ON "), build)
        self.assertTrue(build.endswith(" lossgrid_test_verify lossgrid"), build)
        self.assertTrue(tests.endswith(r" -R ^(verify\.(\w+/)?(MoreSums|Other|Sums)(/\d+)?\..*)$"), tests)
        self.assertEqual(script, "tidy_test.py build/release/lossgrid")

    def test_mutants_are_run_by_the_program(self):
        self.stand_in("build/release/lossgrid")
        self.assertEqual(self.run_script("changed", "--files", "impls/mutants/sum_mutants.cpp").returncode, 0)
        self.assertEqual(self.calls("lossgrid"), ["lossgrid mutants --impl mutant/half_a_sum,mutant/no_sum"])

    def test_a_failure_is_one_of_all(self):
        self.stand_in("bin/ctest", status=8)
        ended = self.run_script("changed", "--files", "harness/verify/truth/sums.cpp")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("changed: ctest --preset ended with 8", ended.stderr)
        self.stand_in("scripts/build", status=1)
        self.assertEqual(self.run_script("changed", "--files", "harness/verify/truth/sums.cpp").returncode, 1)

    def test_nothing_is_run_where_nothing_is_reached(self):
        self.assertEqual(self.run_script("changed", "--files", "LICENSE").returncode, 0)
        self.assertEqual(self.calls(), [])


class ThisRepository(unittest.TestCase):
    def test_every_source_of_a_layer_reaches_tests(self):
        listed = subprocess.run(["git", "ls-files", "harness/*.cpp", "harness/*.h", "impls/*.cpp", "impls/*.cu",
                                 "reports/*.cpp", "python/lossgrid/*.py"], cwd=ROOT, capture_output=True, text=True,
                                check=True).stdout.splitlines()
        self.assertGreater(len(listed), 500)
        ended = subprocess.run([os.path.join(ROOT, "scripts", "changed"), "--list", "--files", *listed], cwd=ROOT,
                               capture_output=True, text=True, check=True)
        reached = dict(line.split(": ", 1) for line in ended.stdout.splitlines())
        self.assertEqual(sorted(reached), sorted(listed))
        nothing = [path for path, tests in reached.items() if tests.startswith("nothing")]
        helpers = [path for path in nothing if not path.startswith("impls/mutants/")]
        self.assertEqual(helpers, [])
        self.assertLess(len(nothing), 10, nothing)  # what mutants share


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
