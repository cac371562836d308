#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the configuration: parts that are there by what is found and by options, warnings, and the
targets that another project gets."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OPTIONAL = ("GTest", "benchmark", "MPI")
NO_CHART_JS = "-DCMAKE_IGNORE_PATH=/usr/share/javascript/chart.js"
NO_PAGE = "CMakeFiles/lossgrid_reports.dir/reports/html/html_template_absent.cpp.o"
OF_LIBRARIES = {"lossgrid_test_core", "lossgrid_gbench", "lossgrid_test_gbench", "lossgrid_test_mpi"}


class Configure(unittest.TestCase):
    def setUp(self):
        self.build = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.build)

    def configure(self, *options, source=ROOT):
        return subprocess.run(["cmake", "-S", source, "-B", self.build, "-G", "Ninja",
                               "-DLOSSGRID_CUDA=OFF", *options], capture_output=True, text=True,
                              check=False)

    def targets(self):
        printed = subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], check=True,
                                 capture_output=True, text=True).stdout
        return {line.split(":")[0] for line in printed.splitlines()}

    def kernels(self):
        """Returns the objects of nvcc; tests compile the same sources as C++."""
        return [target for target in self.targets() if target.endswith(".cu.o") and target.startswith("CMakeFiles/")]

    def test_what_is_not_there_is_left_out_until_it_is(self):
        ended = self.configure(*(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in OPTIONAL),
                               NO_CHART_JS)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        targets = self.targets()
        self.assertLessEqual({"lossgrid", NO_PAGE}, targets)
        self.assertFalse(targets & OF_LIBRARIES)
        ended = self.configure(*(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=OFF" for name in OPTIONAL),
                               "-DCMAKE_IGNORE_PATH=")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        targets = self.targets()
        self.assertLessEqual({"lossgrid"} | OF_LIBRARIES, targets)
        self.assertNotIn(NO_PAGE, targets)

    @unittest.skipIf(glob.glob("/dev/nvidia[0-9]*") + glob.glob("/dev/dxg"), "there is a GPU")
    def test_without_a_gpu_kernels_are_compiled_on_request_alone(self):
        ended = self.configure("-DLOSSGRID_CUDA=AUTO")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("no GPU: without kernels of CUDA", ended.stdout)
        self.assertFalse(self.kernels())
        if shutil.which("nvcc"):
            ended = self.configure("-DLOSSGRID_CUDA=ON")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertTrue(self.kernels())

    def test_each_option_leaves_its_part_out(self):
        cases = (("TESTS", {"lossgrid_gbench"}, OF_LIBRARIES - {"lossgrid_gbench"}),
                 ("GBENCH", {"lossgrid_test_core"}, {"lossgrid_gbench", "lossgrid_test_gbench"}),
                 ("MPI", {"lossgrid_test_core"}, {"lossgrid_test_mpi"}),
                 ("HTML", {NO_PAGE}, {"lossgrid_test_core"}))
        for option, there, absent in cases:
            ended = self.configure(*(f"-DLOSSGRID_{name}={'OFF' if name == option else 'AUTO'}"
                                     for name, _, _ in cases))
            self.assertEqual(ended.returncode, 0, ended.stderr)
            targets = self.targets()
            self.assertLessEqual({"lossgrid"} | there, targets, option)
            self.assertFalse(targets & absent, option)

    def test_another_project_gets_the_program_alone_under_its_own_names(self):
        with tempfile.TemporaryDirectory() as parent:
            with open(os.path.join(parent, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write("cmake_minimum_required(VERSION 3.25)\nproject(parent CXX)\n"
                           f'add_subdirectory("{ROOT}" lossgrid)\n')
            ended = self.configure("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", source=parent)
            self.assertEqual(ended.returncode, 0, ended.stderr)
        targets = self.targets()
        self.assertIn("lossgrid/lossgrid", targets)
        self.assertFalse(targets & OF_LIBRARIES)
        compiled = set(re.findall(r"/CMakeFiles/(\w+)\.dir/", "\n".join(targets)))
        self.assertLessEqual({"lossgrid", "lossgrid_core"}, compiled)
        self.assertEqual([name for name in compiled if not name.startswith("lossgrid")], [])

    def test_tests_that_are_asked_for_need_their_library(self):
        ended = self.configure("-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON", "-DLOSSGRID_TESTS=ON")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("LOSSGRID_TESTS=ON, but there is no GoogleTest with GoogleMock", ended.stderr)

    def test_the_page_that_is_asked_for_needs_chart_js_and_tests_need_the_page(self):
        ended = self.configure(NO_CHART_JS, "-DLOSSGRID_HTML=ON")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("LOSSGRID_HTML=ON, but there is no chart.min.js", ended.stderr)
        ended = self.configure("-DLOSSGRID_HTML=OFF", "-DLOSSGRID_TESTS=ON")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("LOSSGRID_TESTS=ON, but tests need LOSSGRID_HTML with Chart.js", ended.stderr)

    def test_all_libraries_that_are_missing_are_named(self):
        ended = self.configure("-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON")
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("not found: fmt, hwy (on Debian, scripts/setup run installs them)", ended.stderr)

    def test_warnings_are_errors_in_presets_of_ci_only(self):
        for preset, are_errors in (("release", False), ("ci-release", True)):
            ended = self.configure("--preset", preset)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as file:
                commands = [entry["command"] for entry in json.load(file)]
            self.assertEqual([" -Werror " in command for command in commands],
                             [are_errors] * len(commands), preset)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
