#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of the jobs in docs/ci.md for a user's repository: ci_recipes_test.py LOSSGRID.
The repository is an empty folder with the file of the README; `pip install` is left out, and the
executable and package are those of this build. Ends with 77 where PyTorch cannot be imported."""

import json
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


PAGE = text_of("docs/ci.md").split("## Your own repository\n")[1].split("\n## ")[0]
GITHUB, GITLAB = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
README = text_of("README.md").split("## Check your own loss\n")[1]
FILE = re.search(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE).group(1)


def commands_of(recipe):
    """Returns the commands of a recipe in their order, [(key, command)]."""
    commands, key = [], ""
    for line in recipe.splitlines():
        github = re.match(r" +(?:- )?run: (.*)", line)
        heading = re.match(r"  (\w+):", line)
        gitlab = re.match(r"    - (.*)", line)
        if github:
            commands.append(("run", github[1]))
        elif heading:
            key = heading[1]
        elif gitlab and key in ("script", "after_script"):
            commands.append((key, gitlab[1]))
    return commands


class CiRecipes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {
            **os.environ, "PYTHONPATH": os.path.join(ROOT, "python"),
            "PATH": os.pathsep.join((os.path.dirname(LOSSGRID), os.path.dirname(PYTHON),
                                     os.environ["PATH"])),
            "PYTHONDONTWRITEBYTECODE": "1",
            **{f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER")
               for what in ("NAME", "EMAIL")}}
        self.git("init", "-q")
        self.commit(FILE)
        self.base = self.git("rev-parse", "HEAD")

    def git(self, *arguments):
        return subprocess.run(["git", *arguments], cwd=self.folder, env=self.environment, text=True,
                              capture_output=True, check=True).stdout.strip()

    def commit(self, text):
        with open(os.path.join(self.folder, "my_loss.py"), "w", encoding="utf-8") as file:
            file.write(text)
        self.git("add", "my_loss.py")
        self.git("commit", "-q", "-m", "my loss")

    def run_job(self, recipe):
        """Runs the commands of a job as its runner does; returns the exit code of the job and what
        was printed. Steps behind one that failed are left out, but for those that always run."""
        code, printed, always = 0, "", False
        lines = recipe.splitlines()
        for key, command in commands_of(recipe):
            line = next(k for k, text in enumerate(lines) if text.endswith(command))
            always = key == "after_script" or lines[line - 1].endswith("if: always()")
            if code != 0 and not always:
                continue
            command = command.replace('pip install "lossgrid[torch]" && ', "")
            command = command.replace("${{ github.event.pull_request.base.sha }}", self.base)
            # The smallest suite, to be quick.
            command = command.replace("--suite ci", "--suite smoke")
            ended = subprocess.run(["bash", "-e", "-c", command], cwd=self.folder, text=True, env={
                **self.environment, "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.base},
                capture_output=True, timeout=900, check=False)
            printed += f"$ {command}\n{ended.stdout}{ended.stderr}"
            if key != "after_script":
                code = code or ended.returncode
            else:
                self.assertEqual(ended.returncode, 0, printed)
        return code, printed

    def require_published(self):
        with open(os.path.join(self.folder, "head.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["summary"]["trials"], 24)
        for name, begin in (("junit.xml", "<?xml"), ("report.html", "<!DOCTYPE html>")):
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                self.assertEqual(file.read(len(begin)).lower(), begin.lower())

    def test_jobs_are_short_and_the_same(self):
        for recipe in (GITHUB, GITLAB):
            self.assertLessEqual(len(recipe.splitlines()), 15)
            self.assertIn('pip install "lossgrid[torch]"', recipe)
            for part in ("run --load base/my_loss.py", "run --load my_loss.py", "gate base.json",
                         "--to junit", "html head.json"):
                self.assertEqual(sum(part in command for _, command in commands_of(recipe)), 1)
        self.assertIn("--to github", GITHUB)

    def test_a_right_change_passes_on_github(self):
        self.commit(FILE + "# a change\n")
        code, printed = self.run_job(GITHUB)
        self.assertEqual(code, 0, printed)
        self.assertIn("0 failed, ", printed)
        self.require_published()

    def test_a_wrong_change_fails_on_github_with_annotations(self):
        self.commit(FILE.replace("[:, 0]\n", "[:, 0] * 1.001\n"))
        code, printed = self.run_job(GITHUB)
        self.assertEqual(code, 10, printed)
        self.assertIn("\n::error", printed)
        self.require_published()

    def test_one_more_collective_fails_on_gitlab(self):
        line = "    dist.all_gather(parts, logits.detach(), group=batch.tp.group)\n"
        self.assertIn(line, FILE)
        self.commit(FILE.replace(line, 2 * line))
        code, printed = self.run_job(GITLAB)
        self.assertEqual(code, 12, printed)
        self.assertRegex(printed, r"failed +calls")
        self.require_published()


if __name__ == "__main__":
    unittest.main()
