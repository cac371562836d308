#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/tidy with programs that stand for CMake and clang-tidy."""

import json
import os
import sys
import unittest

sys.dont_write_bytecode = True

from stand_ins import ScriptTest


class Tidy(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("tidy")
        build = os.path.join(os.path.realpath(self.root), "build", "tidy")
        batch = os.path.join(build, "Unity", "unity_0_cxx.cxx")
        os.makedirs(os.path.dirname(batch))
        self.source = os.path.join(os.path.realpath(self.root), "a", "alone.cpp")
        with open(batch, "w", encoding="utf-8") as file:
            file.write("".join(f'#include "{os.path.realpath(self.root)}/a/{name}.cpp"\n'
                               for name in ("one", "two")))
        with open(os.path.join(build, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump([{"file": path} for path in
                       (batch, self.source, os.path.join(build, "html_template.cpp"))], file)
        self.batch = batch
        os.makedirs(os.path.dirname(self.source))
        self.fill("alone", 1)
        self.stand_in("bin/cmake")
        self.stand_in("bin/clang-tidy-19")

    def fill(self, name, lines):
        with open(os.path.join(os.path.dirname(self.source), name + ".cpp"), "w", encoding="utf-8") as file:
            file.write("int x;\n" * lines)

    def checked(self):
        return sorted(call.split()[-1] for call in self.calls("clang-tidy-19"))

    def test_checks_all_but_generated_sources(self):
        ended = self.run_script("tidy")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.checked(), sorted([self.batch, self.source]))

    def test_the_largest_source_is_first(self):
        self.stand_in("bin/nproc", "echo 1")
        self.fill("alone", 100)
        self.fill("one", 20)
        self.run_script("tidy")
        self.assertEqual([call.split()[-1] for call in self.calls("clang-tidy-19")], [self.source, self.batch])
        self.fill("two", 500)
        os.remove(self.calls_path)
        self.run_script("tidy")
        self.assertEqual([call.split()[-1] for call in self.calls("clang-tidy-19")], [self.batch, self.source])

    def test_checks_the_batch_of_a_named_file(self):
        self.assertEqual(self.run_script("tidy", "a/two.h").returncode, 0)
        self.assertEqual(self.checked(), [self.batch])
        self.assertEqual(self.run_script("tidy", "a/alone.cpp").returncode, 0)
        self.assertEqual(self.checked(), sorted([self.batch, self.source]))

    def test_a_finding_in_one_source_is_a_failure_of_all(self):
        self.stand_in("bin/clang-tidy-19", 'case "$*" in *alone*) ;; *) exit 1 ;; esac')
        self.assertEqual(self.run_script("tidy").returncode, 1)
        self.assertEqual(len(self.checked()), 2)

    def test_without_a_source_or_the_program_it_ends_with_65(self):
        self.assertEqual(self.run_script("tidy", "a/three.cpp").returncode, 65)
        os.remove(os.path.join(self.bin, "clang-tidy-19"))
        self.link("bash", "dirname")
        ended = self.run_script("tidy", path=self.bin)
        self.assertEqual((ended.returncode, self.checked()), (65, []))
        self.assertIn("scripts/setup tidy", ended.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
