#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/run with programs that stand for the scripts it calls and for lossgrid."""

import re
import sys
import unittest

from stand_ins import ScriptTest


class Run(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("run")
        self.stand_in("bin/nproc", "echo 2")
        self.install(missing=())

    def install(self, missing, status=0):
        lines = "\n".join(missing)
        self.stand_in("scripts/setup", f'[ "$1" != --missing ] || printf "{lines}"', status)

    def build(self):
        self.stand_in("scripts/build")
        self.stand_in("build/release/lossgrid", 'echo "lossgrid ran"')

    def test_the_first_run_begins_with_what_will_happen_and_how_long_it_takes(self):
        self.install(missing=("g++", "cmake", "libfmt-dev"))
        self.stand_in("scripts/build", f'mkdir -p build/release; cp "{self.root}/scripts/setup" '
                                       'build/release/lossgrid')
        ended = self.run_script("run")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout.splitlines()[0],
                         r"^lossgrid: first run here: installs 3 packages \(about 1 min\), builds "
                         r"\(about 3 min on 2 cores\), then verifies \(15 to 50 s\)$")
        self.assertEqual(self.calls(), ["setup --missing run", "nproc ", "setup run",
                                        "build release lossgrid", "lossgrid run --suite upstream "
                                        "--report reports/out/upstream.json"])

    def test_later_runs_are_silent_about_it(self):
        self.build()
        ended = self.run_script("run", "list", "suites")
        self.assertEqual(ended.stdout, "+ build/release/lossgrid list suites\nlossgrid ran\n")
        self.assertEqual(self.calls(), ["setup --missing run", "build release lossgrid",
                                        "lossgrid list suites"])

    def test_a_job_of_ones_own_has_no_promised_time(self):
        self.stand_in("scripts/build", "mkdir -p build/release; cp /bin/true build/release/lossgrid")
        first = self.run_script("run", "list", "suites").stdout.splitlines()[0]
        self.assertTrue(re.search(r"cores\), then runs$", first), first)

    def test_a_build_without_the_page_leaves_the_code_of_the_run(self):
        self.build()
        self.stand_in("build/release/lossgrid", """
case "$1" in
  html) echo "this build has no page" >&2; exit 77 ;;
esac
echo '{}' >run.json; exit 10""")
        ended = self.run_script("run", "run", "--report", "run.json")
        self.assertEqual((ended.returncode, ended.stderr), (10, "this build has no page\n"))
        self.assertEqual(self.calls("lossgrid html"), ["lossgrid html run.json"])

    def test_what_cannot_be_installed_ends_it(self):
        self.build()
        self.install(missing=(), status=65)
        ended = self.run_script("run")
        self.assertEqual((ended.returncode, ended.stdout), (65, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
