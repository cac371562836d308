#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the files and commands of docs/check_your_own_loss.md: check_your_own_loss_test.py
LOSSGRID. Ends with 77 where PyTorch cannot be imported."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

from with_torch import ROOT, require_torch

PYTHON = require_torch()

LOSSGRID = os.path.abspath(sys.argv.pop(1))


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def block(text, language=""):
    return re.search(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE).group(1)


README = text_of("README.md").split("## Check your own loss\n")[1].split("\n## ")[0]
PAGE = text_of("docs/check_your_own_loss.md")
FIRST = PAGE.split("## A first file\n")[1].split("\n## ")[0]


class CheckYourOwnLoss(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_file(self, python, command):
        with open(os.path.join(self.folder, "my_loss.py"), "w", encoding="utf-8") as file:
            file.write(python)
        path = os.pathsep.join((os.path.dirname(LOSSGRID), os.path.dirname(PYTHON),
                                os.environ["PATH"]))
        return subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "PATH": path}, check=False)

    def test_the_file_and_the_commands_of_the_readme_work(self):
        commands = block(README.split("```python")[1].split("```", 1)[1]).splitlines()
        self.assertEqual([command.split()[1] for command in commands], ["run", "hunt", "mutants"])
        run = self.run_file(block(README, "python"), commands[0])
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("\n3 passed\n", run.stdout)
        hunt = self.run_file(block(README, "python"), commands[1])
        self.assertEqual(hunt.returncode, 0, hunt.stdout + hunt.stderr)
        self.assertRegex(hunt.stdout, r"(?m)^hunt: seed \d+, \d+ cases .* [1-9]\d* passed, 0 failed")
        mutants = self.run_file(block(README, "python"), f"{commands[2].split('#')[0]} --suite smoke")
        self.assertRegex(mutants.stdout, r"\n(\d+) of \1 mutants rejected \(100 %\)\n1 of 1 controls accepted\n",
                         mutants.stderr)

    def test_the_first_file_of_the_page_fails_as_it_is_shown(self):
        shown = block(FIRST.split("```python")[1].split("```", 1)[1]).splitlines()
        command = re.match(r"\$ (.*); echo \$\?$", shown[0]).group(1)
        run = self.run_file(block(FIRST, "python"), command)
        self.assertEqual(run.returncode, int(shown[-1]), run.stdout + run.stderr)
        for line in shown[1:-1]:
            if line != "...":
                self.assertIn(line + "\n", run.stdout)

    def test_the_model_of_the_cost_holds_and_names_a_call_too_much(self):
        text = PAGE.split("### A model of the cost\n")[1].split("\n## ")[0]
        model, declared = block(text, "python").split("@lossgrid.implementation")
        head, body = block(README, "python").split('@lossgrid.implementation(vocab_split="equal")')
        python = f"{head}{model}@lossgrid.implementation{declared.splitlines()[0]}{body}"
        run = "lossgrid run --load my_loss.py --impl mine --grid tp1cp1,tp2cp1,tp2cp2 --case "
        for case in ("lens=5+8+1+3 vocab=96", "lens=40+21 vocab=500 dtype=bf16"):
            right = self.run_file(python, f"{run} '{case}'")
            self.assertEqual(right.returncode, 0, right.stdout + right.stderr)
        line = "    dist.all_gather(parts, logits.detach(), group=batch.tp.group)\n"
        self.assertIn(line, python)
        wrong = self.run_file(python.replace(line, 2 * line), f"{run} 'lens=5+8+1+3 vocab=96'")
        self.assertEqual(wrong.returncode, 12, wrong.stdout + wrong.stderr)
        self.assertIn(block(text.split("```python")[1].split("```", 1)[1]), wrong.stdout)

    def test_every_argument_is_on_the_page(self):
        sys.path.insert(0, os.path.join(ROOT, "python"))
        import inspect

        import lossgrid
        arguments = list(inspect.signature(lossgrid.implementation).parameters)[1:]
        table = PAGE.split("## What you declare\n")[1].split("\n## ")[0]
        self.assertEqual([name for name in arguments if f"| `{name}`" not in table
                          and f", `{name}` |" not in table], [])


if __name__ == "__main__":
    unittest.main()
