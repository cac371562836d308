#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/mutate on a program of one function, with universalmutator and the compiler. Ends
with 77 where universalmutator is missing."""

import collections
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import unittest

from stand_ins import SCRIPTS, ScriptTest

VENV = os.path.join(SCRIPTS, "..", "build", "mutate", "venv")

CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_library(sums STATIC toy/sums.cpp)
target_include_directories(sums PUBLIC ${PROJECT_SOURCE_DIR})
add_executable(toy toy/main.cpp)
target_link_libraries(toy PRIVATE sums)
add_executable(other toy/other.cpp)
target_link_libraries(other PRIVATE sums)
"""
PRESETS = {"version": 6, "configurePresets": [
    {"name": "toy", "generator": "Ninja", "binaryDir": "${sourceDir}/build",
     "cacheVariables": {"CMAKE_BUILD_TYPE": "Release", "CMAKE_CXX_FLAGS_RELEASE": "-O1"}}]}
# One verdict a line, with the rules below.
SUMS = """#include "toy/sums.h"
int total(int n) {
  int sum = 0;
  for (int k = 0; k < n; k += 1) {
    sum += twice(k);
  }
  int unused = sum * 0 - 7;
  return sum;
}
int never_called(int n) { return n - 1; }
const char* text() { return "k += 1"; }
"""
HEADER = "#pragma once\nint total(int n);\nint never_called(int n);\ninline int twice(int k) { return 2 * k; }\n"
RULES = """\
k \\+= 1 ==> k += 0
 sum \\+= ==> sum -=
 - 7 ==> - 8
n - 1 ==> n - 2
^  return sum ==>  return summ
2 \\* k ==> 2 + k
"""
MAIN = """#include <cstdio>
#include "toy/sums.h"
int main() {
  const bool is_right = total(4) == 12;
  if (!is_right) std::puts("[  FAILED  ] Sums.Total");
  return is_right ? 0 : 1;
}
"""
VERDICTS = {"toy/sums.cpp:4": "timeout", "toy/sums.cpp:5": "killed", "toy/sums.cpp:7": "equivalent",
            "toy/sums.cpp:8": "does_not_compile", "toy/sums.cpp:10": "survived", "toy/sums.h:4": "killed"}


def is_installed():
    return (importlib.util.find_spec("universalmutator") is not None or
            os.path.exists(os.path.join(VENV, "lib")) and subprocess.run(
                [os.path.join(VENV, "bin", "python"), "-c", "import universalmutator"],
                check=False, capture_output=True).returncode == 0)


class Mutate(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("mutate")
        shutil.copytree(os.path.join(SCRIPTS, "mutation"), os.path.join(self.root, "scripts", "mutation"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        os.makedirs(os.path.join(self.root, "toy"))
        self.write("CMakeLists.txt", CMAKE)
        self.write("CMakePresets.json", json.dumps(PRESETS))
        self.write("toy/sums.cpp", SUMS)
        self.write("toy/sums.h", HEADER)
        self.write("toy/main.cpp", MAIN)
        self.write("toy/other.cpp", "int main() {}\n")
        self.write(".gitignore", "build/\nbin/\ncalls\n")
        self.write("scripts/mutation/lossgrid.rules", RULES)
        self.write("scripts/mutation/targets.json", json.dumps(
            {"configure": ["--preset", "toy"],
             "toy": {"files": ["toy/sums.*"], "steps": [{"program": "other"}, {"program": "toy"}],
                     "least_deadline_s": 2}}))
        subprocess.run(["git", "init", "-q", self.root], check=True)
        if os.path.isdir(VENV):
            os.makedirs(os.path.join(self.root, "build", "mutate"))
            os.symlink(os.path.abspath(VENV), os.path.join(self.root, "build", "mutate", "venv"))
        self.results_path = os.path.join(self.root, "build", "mutate", "toy-1.jsonl")

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def mutate(self, *arguments):
        ended = self.run_script("mutate", "--of", "toy", *arguments)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def results(self):
        with open(self.results_path, encoding="utf-8") as file:
            return {f"{r['file']}:{r['line']}": r for r in map(json.loads, file)}

    def test_every_verdict_resumed_and_summed_up(self):
        printed = self.mutate()
        results = self.results()
        self.assertEqual({place: r["verdict"] for place, r in results.items()}, VERDICTS)
        self.assertEqual(results["toy/sums.cpp:5"]["by"], "Sums.Total")
        self.assertIn("killed by toy: 3\n", printed)
        self.assertIn("summ", results["toy/sums.cpp:8"]["by"])
        self.assertIn("| **all** | 6 | 3 | 1 | 75 % | 1 | 1 |", printed)
        self.assertIn("survivors:\ntoy/sums.cpp:10\n- int never_called(int n) { return n - 1; }\n"
                      "+ int never_called(int n) { return n - 2; }\n", printed)
        with open(os.path.join(self.root, "toy", "sums.cpp"), encoding="utf-8") as file:
            self.assertEqual(file.read(), SUMS)  # the sources of the user stay as they are

        # A run that was killed has written the last line in part.
        with open(self.results_path, encoding="utf-8") as file:
            lines = file.readlines()
        self.write("build/mutate/toy-1.jsonl", "".join(lines[:4]) + lines[4][:9])
        resumed = self.mutate("--resume")
        self.assertIn("\n2 mutants in ", resumed)
        self.assertEqual(collections.Counter(r["verdict"] for r in self.results().values()),
                         collections.Counter(VERDICTS.values()))
        self.assertIn("| **all** | 6 | 3 | 1 | 75 % | 1 | 1 |", self.mutate("--table", self.results_path))

    def test_a_sample_depends_on_its_seed_and_a_longer_one_begins_with_it(self):
        def lines(*arguments):
            return [line for line in self.mutate("--list", *arguments).splitlines() if line.startswith("toy/")]

        all_of_them = lines("--sample", "6")
        self.assertEqual(lines("--sample", "3"), all_of_them[:3])
        self.assertIn(False, [lines("--sample", "6", "--seed", str(seed)) == all_of_them for seed in (2, 3)])

    def test_an_original_that_does_not_pass_ends_it(self):
        self.write("toy/main.cpp", MAIN.replace("12", "13"))
        ended = self.run_script("mutate", "--of", "toy")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("the original does not pass toy: Sums.Total", ended.stderr)


if __name__ == "__main__":
    if not is_installed():
        print("skipped, universalmutator is missing: scripts/setup mutate")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
