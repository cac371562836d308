#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that a start of tests/warm_python is that of build/venv/bin/python, but for the import of
PyTorch. Ends with 77 where PyTorch cannot be imported."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True

from with_torch import ROOT, require_torch

WARM = require_torch()
if not WARM.endswith("/warm_python/python3"):
    print("skipped, PyTorch is not that of build/venv")
    sys.exit(77)
PLAIN = os.path.join(ROOT, "build/venv/bin/python")
MODULE = """
import os
import signal
import sys
import time

def state():
    print("arguments", sys.argv[1:], "name", __name__, "folder", os.getcwd())
    print("environment", sorted(os.environ.items()))
    print("module", os.path.basename(sys.argv[0]), "path", sys.path)
    print("input", sys.stdin.read())
    print("errors", file=sys.stderr)
    print("descriptor", os.read(int(sys.argv[2]), 100).decode())

def raises():
    raise ValueError("a fault")

def broken_pipe():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)

def sleeps():
    print(os.getpid(), flush=True)
    time.sleep(600)

{"state": state, "raises": raises, "pipe": broken_pipe, "sleeps": sleeps,
 "warm": lambda: print("torch" in sys.modules),
 "code": lambda: sys.exit(7), "text": lambda: sys.exit("a reason"), "none": lambda: sys.exit(None),
 "at_once": lambda: os._exit(9), "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
 "kill": lambda: os.kill(os.getpid(), signal.SIGKILL)}[sys.argv[1]]()
"""


class WarmPython(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "module.py"), "w", encoding="utf-8") as file:
            file.write(MODULE)

    def start(self, python, *arguments, text=""):
        readable, writable = os.pipe()
        os.write(writable, b"through a pipe")
        os.close(writable)
        with open(readable, "rb") as pipe:
            ended = subprocess.run(
                [python, *arguments, str(pipe.fileno())], cwd=self.folder, input=text, text=True,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1",
                     "A": "1\n2"}, pass_fds=[pipe.fileno()], capture_output=True, timeout=300, check=False)
        return ended.returncode, ended.stdout, ended.stderr

    def test_a_module_runs_as_by_the_interpreter(self):
        for name in ("state", "code", "text", "none", "at_once", "segfault", "pipe", "kill"):
            self.assertEqual(self.start(WARM, "-m", "module", name, text="a\nb"),
                             self.start(PLAIN, "-m", "module", name, text="a\nb"), name)

    def test_an_exception_is_a_traceback(self):
        code, out, err = self.start(WARM, "-m", "module", "raises")
        self.assertEqual((code, out), (1, ""))
        self.assertTrue(err.startswith("Traceback (most recent call last):\n"), err)
        self.assertTrue(err.endswith("ValueError: a fault\n"), err)

    def test_only_modules_are_forked(self):
        self.assertEqual(self.start(WARM, "-m", "module", "warm"), (0, "True\n", ""))
        self.assertEqual(self.start(WARM, "module.py", "warm"), (0, "False\n", ""))
        self.assertEqual(self.start(WARM, "-c", "import sys; print('torch' in sys.modules)"),
                         (0, "False\n", ""))

    def test_the_fork_ends_with_the_process_that_was_started(self):
        for one in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            process = subprocess.Popen([WARM, "-m", "module", "sleeps"], cwd=self.folder, text=True,
                                       stdout=subprocess.PIPE)
            fork = int(process.stdout.readline())
            process.send_signal(one)
            self.assertEqual(process.wait(), -one)
            process.stdout.close()
            end = time.monotonic() + 60
            while os.path.exists(f"/proc/{fork}") and time.monotonic() < end:
                time.sleep(0.01)
            self.assertFalse(os.path.exists(f"/proc/{fork}"))

    def test_without_a_server_it_is_the_interpreter(self):
        warm = os.path.join(self.folder, "tests/warm_python/python3")
        python = os.path.join(self.folder, "build/venv/bin/python")
        for path in (warm, python):
            os.makedirs(os.path.dirname(path))
        shutil.copy(WARM, warm)
        with open(python, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n[ "$2" != --serve ] || exit 1\nexec "{PLAIN}" "$@"\n')
        os.chmod(python, 0o755)
        began = time.monotonic()
        self.assertEqual(self.start(warm, "-m", "module", "warm"), (0, "False\n", ""))
        self.assertLess(time.monotonic() - began, 60)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
