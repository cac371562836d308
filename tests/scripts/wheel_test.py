#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the checks of scripts/wheel. The build and the trial of a wheel are a job of their own.
wheel_test.py LOSSGRID"""

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "wheel")
loader = importlib.machinery.SourceFileLoader("wheel", SCRIPT)
wheel = importlib.util.module_from_spec(importlib.util.spec_from_loader("wheel", loader))
loader.exec_module(wheel)


class Wheel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_a_library_that_is_not_in_the_wheel_is_named(self):
        shutil.copy(sys.argv[1], self.folder)
        with self.assertRaisesRegex(wheel.Failed, r"^lossgrid needs lib.*libfmt\.so\.9.*not in the wheel"):
            wheel.glibc_needed(self.folder)

    def test_the_glibc_is_the_latest_that_a_file_asks_for(self):
        self.assertEqual(wheel.glibc_needed(self.folder), 0)
        shutil.copy("/bin/true", self.folder)
        of_c = wheel.glibc_needed(self.folder)
        self.assertGreaterEqual(of_c, 2)
        real, needs = wheel.run, "Version needs section\n Name: GLIBC_2.34\n Name: GLIBCXX_3.4.30\n"
        self.addCleanup(setattr, wheel, "run", real)
        wheel.run = lambda command, **_: needs if "-VW" in command else ""
        self.assertEqual(wheel.glibc_needed(self.folder), 35)  # by libstdc++
        needs = needs.replace("2.34", "2.38")
        self.assertEqual(wheel.glibc_needed(self.folder), 38)
        needs = needs.replace("3.4.30", "3.4.99")
        with self.assertRaisesRegex(wheel.Failed, "^true needs GLIBCXX_3.4.99, newer than known"):
            wheel.glibc_needed(self.folder)

    def test_the_build_tools_stay(self):
        calls = []

        def stand_in(command, **_):
            calls.append(command[1:])
            if "venv" in command:
                os.makedirs(os.path.join(command[-1], "bin"))
                open(os.path.join(command[-1], "bin", "python"), "w", encoding="utf-8").close()

        for name, value in (("run", stand_in), ("WHEELS", self.folder)):
            self.addCleanup(setattr, wheel, name, getattr(wheel, name))
            setattr(wheel, name, value)
        first, second = wheel.build_tools(), wheel.build_tools()
        self.assertEqual(first, second)
        self.assertEqual([call[1] for call in calls], ["venv", "pip", "pip"])
        self.assertRegex(calls[1][-1], r"^scikit-build-core\b")

    def test_bad_arguments(self):
        for arguments, code, message in ((("--try", "none.whl"), 65, "wheel: there is no file none.whl"),
                                         (("--no-such-flag",), 64, "unrecognized arguments")):
            ended = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True,
                                   check=False)
            self.assertEqual(ended.returncode, code)
            self.assertIn(message, ended.stderr)

    def test_a_wheel_that_is_none(self):
        path = os.path.join(self.folder, "lossgrid-1-py3-none-any.whl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("no archive")
        ended = subprocess.run([sys.executable, SCRIPT, "--try", path], capture_output=True, text=True,
                               check=False)
        self.assertEqual((ended.returncode, ended.stderr), (65, f"wheel: {path} is no wheel\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
