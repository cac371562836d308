#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/build with a program that stands for CMake."""

import os
import pty
import sys
import unittest

from stand_ins import ScriptTest

# Configures at once, then builds in steps; step 6 takes its own time.
CMAKE = """
case "$1" in
  --preset) exit 0 ;;
esac
for step in $(seq {steps}); do
  echo "[$step/{steps}] Building CXX object a.cpp.o"
  if [ "$step" = 6 ]; then sleep {sixth}; else sleep {pause}; fi
done
"""


class Build(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("build")

    def cmake(self, steps=0, pause=0, sixth=0, text="", status=0):
        self.stand_in("bin/cmake", CMAKE.format(steps=steps, pause=pause, sixth=sixth) + text,
                      status)

    def on_terminal(self, *arguments):
        """Returns the output of the script on a terminal."""
        path = os.path.join(self.root, "scripts", "build")
        printed = b""
        child, terminal = pty.fork()
        if child == 0:
            os.environ["PATH"] = f"{self.bin}:{os.environ['PATH']}"
            os.execv(path, [path, *arguments])
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the end of a terminal
                break
            if not part:
                break
            printed += part
        self.assertEqual(os.waitpid(child, 0)[1], 0, printed)
        return printed.decode()

    def test_it_is_silent_where_nothing_has_to_be_built(self):
        self.cmake(steps=1)
        ended = self.run_script("build", "release", "lossgrid")
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "", ""))
        self.assertTrue(self.calls("cmake --build --preset release -j")[0].endswith(
            " --target lossgrid"))

    def test_options_go_to_the_configuration(self):
        self.cmake()
        self.run_script("build", "asan", "-DLOSSGRID_TESTS=ON", "-DX=1", "lossgrid_test_core",
                        "lossgrid_test_comm")
        configure, build = self.calls("cmake")
        self.assertEqual(configure, "cmake --preset asan -DLOSSGRID_TESTS=ON -DX=1")
        self.assertTrue(build.endswith(" --target lossgrid_test_core lossgrid_test_comm"), build)

    def test_a_failure_prints_the_end_of_the_log_and_where_it_is(self):
        self.cmake(steps=2, text="echo a.cpp: no such thing", status=1)
        ended = self.run_script("build", "release")
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))
        self.assertIn("a.cpp: no such thing\nbuild: preset release failed "
                      "(log: build/release/build.log)\n", ended.stderr)

    def test_ci_presets_build_in_the_folders_of_the_others(self):
        self.cmake(status=1)
        ended = self.run_script("build", "ci-release")
        self.assertIn("build: preset ci-release failed (log: build/release/build.log)\n", ended.stderr)
        self.assertEqual(os.listdir(os.path.join(self.root, "build")), ["release"])

    def test_a_terminal_has_one_line_that_goes_away(self):
        self.cmake(steps=8, pause=0.4, sixth=0.4)
        printed = self.on_terminal("release")
        self.assertRegex(printed, r"\r\x1b\[Kbuild: preset release: [2-7] of 8 steps "
                                  r"\(log: build/release/build.log\)")
        self.assertNotIn("\n", printed)
        self.assertTrue(printed.endswith("\r\x1b[K"), printed)

    def test_elsewhere_there_is_a_line_every_15_seconds_and_the_time_it_took(self):
        self.cmake(steps=8, pause=0.1, sixth=17)
        ended = self.run_script("build", "release")
        lines = ended.stdout.splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[0], r"^build: 6 of 8 steps, about 10 s left$")
        self.assertRegex(lines[1], r"^build: preset release: 8 steps in [23]0 s$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
