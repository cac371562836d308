#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/: runs every command of fences marked `console` and compares its output in kind,
checks that generated parts are current and that links lead somewhere. docs_test.py LOSSGRID [PAGE...]

Each line `$ COMMAND` of a fence is run by bash and has to end with 0; `; echo $?` behind it shows
another exit code. The lines below it are its output with all numbers masked and blanks collapsed, but
for exit codes and lines that count verdicts. `...` stands for any lines. Commands of one page share a
folder. `console torch` marks commands that need PyTorch; they are left out without it."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

from with_torch import ROOT, has_torch, prefer_torch

PYTHON = prefer_torch()
HAS_TORCH = has_torch()
LOSSGRID = os.path.abspath(sys.argv[1])
PAGES = sys.argv[2:] or ["README.md", *sorted(glob.glob("docs/*.md", root_dir=ROOT))]
FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])[-+]?(\d[\d.,]*(e[-+]?\d+)?|inf\b|nan\b)")
COUNTS = re.compile(r"^\d+ (of \d+ |passed|failed|skipped|crashed|timeout)")


def text_of(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def masked(line):
    """Returns the kind of a line: its words, with # for each number."""
    line = line.rstrip()
    if COUNTS.match(line):
        return line
    return " ".join(re.sub(r"# ?(B|KiB|MiB|GiB)\b", "# B", NUMBER.sub("#", line)).split())


def commands_of(fence):
    """Yields (command, expected lines) of a fence."""
    command, lines = None, []
    for line in fence.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, lines
            command, lines = line[2:], []
        else:
            lines.append(line)
    yield command, lines


def difference(expected, printed, command):
    """Returns the first expected line that is not where it should be; None if all are."""
    exact = command.endswith("; echo $?")
    at = 0
    skips = False
    for number, line in enumerate(expected):
        if line == "...":
            skips = True
            continue
        is_code = exact and number == len(expected) - 1
        kinds = [text if is_code else masked(text) for text in printed[at:]]
        want = line if is_code else masked(line)
        if want not in (kinds if skips else kinds[:1]):
            return line
        at += kinds.index(want) + 1
        skips = False
    return None if skips or at == len(printed) else f"the end, before: {printed[at]}"


class Documentation(unittest.TestCase):
    maxDiff = None

    def test_commands_print_what_pages_show(self):
        path = os.pathsep.join((os.path.dirname(LOSSGRID), os.path.dirname(PYTHON),
                                os.environ["PATH"]))
        environment = {**os.environ, "PATH": path, "COLUMNS": "1000"}
        ran = 0
        for page in PAGES:
            with tempfile.TemporaryDirectory() as folder:
                for name in ("reports", "python", "impls", "include", "scripts"):
                    os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
                for kind, fence in FENCE.findall(text_of(page)):
                    if kind.split()[:1] != ["console"] or ("torch" in kind and not HAS_TORCH):
                        continue
                    for command, expected in commands_of(fence):
                        ended = subprocess.run(["bash", "-c", command], cwd=folder, text=True,
                                               env=environment, stdout=subprocess.PIPE,
                                               stderr=subprocess.PIPE, timeout=900, check=False)
                        printed = ended.stdout.splitlines()
                        ran += 1
                        with self.subTest(page=page, command=command):
                            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                            missing = difference(expected, printed, command)
                            self.assertIsNone(missing, f"{page} shows\n  {missing}\nbut\n"
                                              f"  $ {command}\nprints\n{ended.stdout}")
        self.assertGreater(ran, 0)

    def test_generated_parts_are_current(self):
        checked = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/docs"), "--check",
                                  LOSSGRID], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 0, f"{checked.stdout}{checked.stderr}run scripts/docs")

    def test_links_lead_somewhere(self):
        def anchors(page):
            plain = FENCE.sub("", text_of(page))
            headings = re.findall(r"^#+ (.*)$", plain, re.MULTILINE)
            return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
                    for heading in headings}
        for page in PAGES:
            folder = os.path.dirname(page)
            for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text_of(page))):
                if "://" in target:
                    continue
                file, _, anchor = target.partition("#")
                file = os.path.normpath(os.path.join(folder, file)) if file else page
                with self.subTest(page=page, link=target):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, file)))
                    self.assertTrue(not anchor or anchor in anchors(file))

    def test_the_index_has_every_page(self):
        index = text_of("docs/README.md")
        for page in glob.glob("docs/*.md", root_dir=ROOT):
            name = os.path.basename(page)
            self.assertTrue(name == "README.md" or f"]({name})" in index, name)

    def test_the_readme_is_one_page(self):
        self.assertLessEqual(text_of("README.md").count("\n"), 200)


class Comparison(unittest.TestCase):
    """The comparison itself can fail."""

    def test_what_differs_is_named(self):
        printed = ["head", "  a  1.5 KiB", "3 passed, 1 failed", "10"]
        command = "x; echo $?"
        self.assertIsNone(difference(["head", " a 980 B", "3 passed, 1 failed", "10"], printed, command))
        self.assertIsNone(difference(["...", "3 passed, 1 failed", "10"], printed, command))
        self.assertIsNone(difference(["head", "..."], printed, "x"))
        for wrong in (["head", " b 980 B", "...", "10"], ["head", "...", "2 passed, 1 failed", "10"],
                      ["head", "...", "0"], ["head"], [], ["...", "head", "head", "..."]):
            self.assertIsNotNone(difference(wrong, printed, command), wrong)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
