#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of lossgrid completion in real shells, and of the manual page in groff: completion_test.py
LOSSGRID. zsh and groff are tried where they are."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LOSSGRID = os.path.abspath(sys.argv.pop(1))

BASH = """
source <({lossgrid} completion bash)
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_lossgrid
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

# The functions of zsh's completion system are replaced by ones that print what they are given.
ZSH = """
compdef() {{ }}
compadd() {{ shift; print -rl -- "$@" }}
_files() {{ print FILES }}
source <({lossgrid} completion zsh)
words=({words}) CURRENT=$#words
_lossgrid
"""


class Completion(unittest.TestCase):
    def in_bash(self, line):
        """Returns the words that bash offers for the last word of `line`."""
        words = " ".join(f"'{word}'" for word in line.split(" "))
        script = BASH.format(lossgrid=LOSSGRID, words=words.replace("'lossgrid'", LOSSGRID, 1))
        ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True,
                               stdin=subprocess.DEVNULL)
        self.assertEqual(ended.stderr, "")
        return [word for word in ended.stdout.splitlines() if word]

    def test_commands(self):
        self.assertEqual(self.in_bash("lossgrid b"), ["bench"])
        shown = subprocess.run([LOSSGRID, "--help"], capture_output=True, text=True, check=True)
        listed = [line.split()[0] for line in
                  shown.stdout.split("\nSubcommands:\n")[1].split("\n\n")[0].splitlines()
                  if line[2] != " "]
        self.assertEqual([word for word in self.in_bash("lossgrid ") if word not in listed], [])
        self.assertIn("run", listed)
        self.assertEqual(self.in_bash("lossgrid history a"), ["append"])
        self.assertEqual(self.in_bash("lossgrid help mut"), ["mutants"])

    def test_flags_are_those_of_the_command(self):
        self.assertEqual(self.in_bash("lossgrid run --superv"), ["--supervise"])
        self.assertEqual(self.in_bash("lossgrid bench --superv"), [])
        self.assertEqual(self.in_bash("lossgrid run --suite smoke --qui"), ["--quiet"])
        self.assertEqual(self.in_bash("lossgrid --ver"), ["--version"])
        self.assertEqual(self.in_bash("lossgrid run --inject"), ["--inject"])  # one is hidden

    def test_values(self):
        self.assertEqual(self.in_bash("lossgrid run --suite smo"), ["smoke"])
        self.assertEqual(self.in_bash("lossgrid run --impl cp_l"), ["cp_local"])
        self.assertEqual(self.in_bash("lossgrid run --impl = fus"), ["fused"])
        self.assertEqual(self.in_bash("lossgrid run --impl fused,cp_l"), ["fused,cp_local"])
        self.assertIn("mutant/gradient_times_cp", self.in_bash("lossgrid run --impl mutant/"))
        self.assertNotIn("mutant/gradient_times_cp", self.in_bash("lossgrid run --impl "))
        self.assertIn("tp2cp2", self.in_bash("lossgrid run --grid tp2"))
        self.assertEqual(self.in_bash("lossgrid gate --format m"), ["markdown"])
        self.assertEqual(self.in_bash("lossgrid export r.json --to jun"), ["junit"])
        self.assertEqual(self.in_bash("lossgrid list su"), ["suites"])

    def test_files_are_left_to_the_shell(self):
        self.assertEqual(self.in_bash("lossgrid run --load "), [])
        self.assertEqual(self.in_bash("lossgrid validate "), [])

    def test_unknown_shells_are_refused(self):
        ended = subprocess.run([LOSSGRID, "completion", "fish"], capture_output=True, text=True,
                               check=False)
        self.assertEqual((ended.returncode, ended.stderr.count("\n")), (64, 1))
        self.assertIn("'fish'", ended.stderr)

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh(self):
        for line, offered in (("lossgrid run --impl cp_l", ["cp_local"]),
                              ("lossgrid ben", ["bench"]),
                              ("lossgrid run --suite smoke --superv", ["--supervise"]),
                              ("lossgrid run --load ", ["FILES"])):
            with self.subTest(line=line):
                words = " ".join(f"'{word}'" for word in line.split(" "))
                script = ZSH.format(lossgrid=LOSSGRID,
                                    words=words.replace("'lossgrid'", LOSSGRID, 1))
                ended = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True,
                                       check=True, stdin=subprocess.DEVNULL)
                self.assertEqual((ended.stdout.splitlines(), ended.stderr), (offered, ""))


class ManPage(unittest.TestCase):
    PAGE = subprocess.run([LOSSGRID, "help", "--man"], capture_output=True, text=True,
                          check=True).stdout

    def test_it_has_every_command_and_flag(self):
        plain = self.PAGE.replace("\\-", "-")
        listed = subprocess.run([LOSSGRID, "completion", "words", "--", ""], capture_output=True,
                                text=True, check=True).stdout.split()
        self.assertGreater(len(listed), 15)
        for command in listed:
            self.assertIn(f"\n.SS lossgrid {command}\n", plain)
            flags = subprocess.run([LOSSGRID, "completion", "words", "--", command, "--"],
                                   capture_output=True, text=True, check=True).stdout.split()
            part = plain.split(f"\n.SS lossgrid {command}\n")[1].split("\n.SS ")[0]
            self.assertEqual([flag for flag in flags if flag not in part], [])

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_groff_takes_it_without_a_warning(self):
        shown = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=self.PAGE, text=True,
                               capture_output=True, check=True)
        self.assertEqual(shown.stderr, "")
        text = re.sub("\x1b\\[[0-9;]*m", "", shown.stdout)
        self.assertIn("lossgrid - verify and measure", text.replace("\u2010", "-"))
        self.assertIn("Exit codes: 0 all as it should be", text)


class Installed(unittest.TestCase):
    def test_shells_and_man_find_the_files(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cmake", "--install", os.path.dirname(LOSSGRID), "--prefix", folder],
                           capture_output=True, check=True)
            for path, words in (("bash-completion/completions/lossgrid", ["completion", "bash"]),
                                ("zsh/site-functions/_lossgrid", ["completion", "zsh"]),
                                ("man/man1/lossgrid.1", ["help", "--man"])):
                with open(os.path.join(folder, "share", path), encoding="utf-8") as file:
                    self.assertEqual(file.read(), subprocess.run(
                        [LOSSGRID, *words], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    unittest.main()
