# SPDX-License-Identifier: Apache-2.0
"""A folder with copies of scripts and with programs that stand for others, for tests of scripts."""

import os
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")


class ScriptTest(unittest.TestCase):
    """`root` stands for the repository; programs in `bin` are found before others."""

    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.bin = os.path.join(self.root, "bin")
        os.makedirs(self.bin)
        self.calls_path = os.path.join(self.root, "calls")

    def copy_script(self, name):
        os.makedirs(os.path.join(self.root, "scripts"), exist_ok=True)
        shutil.copy(os.path.join(SCRIPTS, name), os.path.join(self.root, "scripts", name))

    def stand_in(self, path, text="", status=0):
        """Writes a program that records its call, runs `text` in sh, and ends with `status`."""
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "${{0##*/}} $*" >>"{self.calls_path}"\n{text}\n'
                       f"exit {status}\n")
        os.chmod(path, 0o755)

    def link(self, *names):
        """Links programs of this machine, for a PATH that has `bin` alone."""
        for name in names:
            os.symlink(shutil.which(name), os.path.join(self.bin, name))

    def calls(self, program=""):
        if not os.path.exists(self.calls_path):
            return []
        with open(self.calls_path, encoding="utf-8") as file:
            return [line for line in file.read().splitlines() if line.startswith(program)]

    def run_script(self, name, *arguments, path=None):
        path = path or f"{self.bin}:{os.environ['PATH']}"
        return subprocess.run([os.path.join(self.root, "scripts", name), *arguments],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": path})
