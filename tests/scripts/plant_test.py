#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/plant without a compiler: its mistakes fit the sources, and a stand-in for lossgrid
shows what counts as rejected. `scripts/plant` itself takes hours."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SCRIPT = os.path.join(ROOT, "scripts", "plant")
FIELDS = {"name", "what", "shows", "seen", "class", "file", "old", "new"}
JUDGE = ("_truth", "mutants", "impls/reference/", "harness/verify/", "harness/runner/")
# Rejects mistake 1 in suite b, hangs with mistake 2, and passes with all others.
STAND_IN = """#!/bin/sh
case "$LOSSGRID_PLANTED $*" in
  "1 run "*"--suite b "*) exit 10 ;;
  "2 run "*"--suite b "*) exec sleep 60 ;;
  "0 broken "*) exit 14 ;;
esac
[ "$1" != hunt ]
"""


def load_script():
    loader = importlib.machinery.SourceFileLoader("plant", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("plant", loader))
    loader.exec_module(module)
    return module


class Plant(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = load_script()
        cls.plants = cls.script.read_plants()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = os.path.join(folder.name, "lossgrid")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(STAND_IN)
        os.chmod(self.program, 0o755)

    def judged(self, number, commands, known=None):
        lines = []

        def run(command, of_plant):
            return self.script.run(self.script.command_line(self.program, command), of_plant, 1)

        by = self.script.judged({"number": number, "name": f"p{number}"}, commands, known or {}, run, lines.append)
        return by, [(line["command"], line["exit"]) for line in lines]

    def test_check_accepts_the_list(self):
        ended = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stdout, f"{len(self.plants)} mistakes fit the sources\n")

    def test_every_mistake_has_its_number_in_its_source(self):
        sources = self.script.planted_sources(self.plants)
        for one in self.plants:
            self.assertIn(f"lossgrid_planted({one['number']})", sources[one["file"]], one["name"])
        for path, text in sources.items():
            self.assertNotIn("PLANTED", text, path)

    def test_a_text_that_is_not_there_once_is_refused(self):
        stale = dict(self.plants[0], old="no such text")
        with self.assertRaisesRegex(SystemExit, "0 times, not once"):
            self.script.planted_sources([stale])

    def test_mistakes_are_complete_and_outside_of_the_judge(self):
        names = [one["name"] for one in self.plants]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(names), 100)
        for one in self.plants:
            self.assertEqual(set(one), FIELDS | {"number"}, one["name"])
            self.assertFalse([part for part in JUDGE if part in one["file"]], one["file"])

    def test_mistakes_are_chosen_by_name_and_number(self):
        second = self.plants[1]
        chosen = self.script.chosen_of(self.plants, [second["name"], "3"])
        self.assertEqual([one["number"] for one in chosen], [2, 3])
        with self.assertRaisesRegex(SystemExit, "no mistake nothing"):
            self.script.chosen_of(self.plants, ["nothing"])

    def test_the_first_command_that_fails_rejects(self):
        commands = ["run --suite a", "run --suite b", "run --suite c"]
        self.assertEqual(self.judged(1, commands), (commands[1], [(commands[0], 0), (commands[1], 10)]))
        self.assertEqual(self.judged(7, commands)[0], "")

    def test_a_command_that_takes_too_long_rejects(self):
        by, lines = self.judged(2, ["run --suite b"])
        self.assertEqual((by, lines), ("run --suite b", [("run --suite b", self.script.TIMED_OUT)]))

    def test_commands_that_were_passed_are_not_run_again(self):
        self.assertEqual(self.judged(1, ["run --suite b"], {"run --suite b": 0}), ("", []))

    def test_a_case_shows_its_mistake_or_is_named(self):
        plants = [{"name": f"p{number}", "number": number, "seen": "run --suite b"} for number in (1, 7)]
        plants.append({"name": "p8", "number": 8, "seen": ""})
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(self.script.not_seen(plants, self.program, 5, 1), ["p7"])

    def test_hunts_only_if_lossgrid_has_it(self):
        suites = [f"run --suite {suite}" for suite in self.script.SUITES]
        self.assertEqual(self.script.default_commands(self.program, 5), suites)
        self.assertEqual(self.script.default_commands("true", 5), [*suites, "hunt --seconds 5"])

    def test_the_table_counts_what_is_rejected(self):
        plants = [{"name": name, "what": name, "shows": "s"} for name in "abcde"]
        ran = [("none", "x", 0, "1"), ("a", "x", 0, "1"), ("a", "y", 10, ""), ("b", "x", "timeout", ""),
               ("c", "x", 0, "2"), ("d", "x", 0, "1")]
        results = [{"name": name, "command": command, "exit": status, "digest": digest}
                   for name, command, status, digest in ran]
        text = self.script.table(plants, results)
        self.assertIn("| a | s | `y` |\n| b | s | `x` |\n| c | s | accepted |\n| d | s | not reached |\n"
                      "| e | s | not run |\n", text)
        self.assertIn("Of 4 mistakes 2 are rejected; 1 change a report and are accepted; 1 change none.\n"
                      "- 1 by `y`\n- 1 by `x`\n", text)

    def test_the_digest_of_a_report_leaves_out_times(self):
        def digest(number, time):
            with open(self.program, "w", encoding="utf-8") as file:
                file.write(f'{{"run": {{"started": {time}}}, "summary": {{}}, "trials": [{number}, {{"x_ns": {time}}}]}}')
            return self.script.digest_of(self.program)

        self.assertEqual(digest(1, 2), digest(1, 3))
        self.assertNotEqual(digest(1, 2), digest(4, 2))
        self.assertEqual(self.script.digest_of(self.program + ".none"), "")

    def test_a_line_that_was_cut_off_is_left_out(self):
        path = self.program + ".jsonl"
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps({"name": "a"}) + "\n" + '{"name": "b"')
        self.assertEqual(self.script.read_results(path), [{"name": "a"}])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
