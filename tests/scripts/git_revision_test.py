#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of harness/core/process/git_revision.cmake in repositories of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness", "core", "process",
                      "git_revision.cmake")
CMAKE = shutil.which("cmake")  # for a PATH without it
IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@example.com")


class GitRevision(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.source = os.path.join(self.folder, "source")
        self.header = os.path.join(self.folder, "build", "git_revision.h")
        os.mkdir(self.source)
        self.write("harness/a.cpp", "int a;\n")
        self.write("README.md", "about\n")

    def write(self, name, text):
        path = os.path.join(self.source, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def git(self, *arguments):
        return subprocess.run(["git", *IDENTITY, "-C", self.source, *arguments], check=True,
                              capture_output=True, text=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "a commit")
        return self.git("rev-parse", "--short", "HEAD")

    def revision(self, source=None, **environment):
        """Returns the revision in the header after a build."""
        subprocess.run([CMAKE, f"-DSOURCE={source or self.source}",
                        f"-DOUT={self.header}", "-P", SCRIPT],
                       check=True, env={**os.environ, **environment})
        with open(self.header, encoding="utf-8") as file:
            text = file.read()
        begin, end = '#define LOSSGRID_GIT_REVISION "', '"\n'
        self.assertTrue(text.startswith(begin) and text.endswith(end), text)
        return text[len(begin):-len(end)]

    def test_it_follows_commits_and_edits(self):
        self.git("init", "-q")
        first = self.commit()
        self.assertEqual(self.revision(), first)
        self.write("harness/a.cpp", "int b;\n")
        self.assertEqual(self.revision(), first + "-dirty")
        self.git("add", "-A")
        self.assertEqual(self.revision(), first + "-dirty")
        second = self.commit()
        self.assertNotEqual(second, first)
        self.assertEqual(self.revision(), second)
        self.write("harness/a.cpp", "int c;\n")
        self.git("checkout", "-q", "harness/a.cpp")
        self.assertEqual(self.revision(), second)

    def test_a_new_source_is_a_change_and_a_new_text_is_none(self):
        self.git("init", "-q")
        first = self.commit()
        self.write("README.md", "more about it\n")
        self.write("notes.txt", "mine\n")
        self.assertEqual(self.revision(), first)
        self.write("impls/mine.cpp", "int mine;\n")
        self.assertEqual(self.revision(), first + "-dirty")

    def test_the_header_stays_while_nothing_changes(self):
        self.git("init", "-q")
        self.commit()
        self.revision()
        os.utime(self.header, (1, 1))
        self.write("README.md", "more about it\n")
        self.revision()
        self.assertEqual(os.stat(self.header).st_mtime, 1)
        self.write("harness/a.cpp", "int b;\n")
        self.revision()
        self.assertNotEqual(os.stat(self.header).st_mtime, 1)

    def test_without_a_repository_or_commit_or_git_it_is_empty(self):
        self.assertEqual(self.revision(GIT_CEILING_DIRECTORIES=self.folder), "")
        self.git("init", "-q")
        self.assertEqual(self.revision(), "")
        self.commit()
        self.assertNotEqual(self.revision(), "")
        self.assertEqual(self.revision(PATH=self.folder), "")

    def test_the_repository_around_an_archive_is_another_one(self):
        self.git("init", "-q")
        self.commit()
        self.assertEqual(self.revision(source=os.path.join(self.source, "harness")), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
