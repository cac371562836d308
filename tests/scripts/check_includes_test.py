#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/check_includes in a small repository: what a source of it may use, and what it may not."""

import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from stand_ins import ScriptTest

HEADERS = {
    "harness/core/a.h": "class Alpha {\n  void member_of_alpha();\n};\nint alpha_of(int x);\n"
                        "constexpr int kAlpha = 1;\ntemplate <typename T>\nT read_as(int);\nusing Shape = int;\n",
    "harness/core/b.h": '#include "harness/core/a.h"\nstruct Beta {};\ninline double member_of_alpha(double y) {\n}\n',
}


class CheckIncludes(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("check_includes")
        for path, text in HEADERS.items():
            self.write(path, text)
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def findings(self, text):
        self.write("harness/core/c.cpp", text)
        ended = self.run_script("check_includes")
        self.assertEqual((ended.returncode, ended.stderr), (1 if ended.stdout else 0, ""))
        return [line.removeprefix("harness/core/c.cpp: ") for line in ended.stdout.splitlines()]

    def test_a_name_without_its_header_is_found(self):
        for text, name in (("Alpha alpha;", "Alpha"), ("int x = kAlpha;", "kAlpha"), ("Shape shape;", "Shape"),
                           ("int f() {\n  return alpha_of(1);\n}", "alpha_of"),
                           ("int f() {\n  return g(alpha_of);\n}", "alpha_of"),
                           ("int f() {\n  return read_as<int>(1);\n}", "read_as")):
            self.assertEqual(self.findings(text), [f"{name} without harness/core/a.h"], text)

    def test_a_header_may_include_it(self):
        for header in HEADERS:
            self.assertEqual(self.findings(f'#include "{header}"\nAlpha alpha = alpha_of(kAlpha);\n'), [])
        self.assertEqual(self.findings('#include "harness/core/a.h"\nBeta beta;\n'), ["Beta without harness/core/b.h"])

    def test_what_the_source_declares_itself_is_not_searched_for(self):
        for text in ("struct Alpha {};\nAlpha alpha;", "static int alpha_of(int);\nint y = alpha_of(1);",
                     "void f(Other x) {\n  x.alpha_of(1);\n  x->alpha_of(2);\n}",
                     "int f() {\n  std::vector<int> alpha_of(3);\n  return g(alpha_of);\n}",
                     "// Alpha\nconst char* text = \"Alpha alpha_of(kAlpha)\";"):
            self.assertEqual(self.findings(text), [], text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
