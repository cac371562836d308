#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of what `cmake --install` makes: a tree that runs from wherever it was moved, in any folder,
with its own suites unless --cases names others. install_test.py LOSSGRID"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.dirname(os.path.realpath(sys.argv[1]))
TREE = tempfile.mkdtemp()


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(lossgrid VERSION ([0-9.]+)", file.read())[1]


def setUpModule():
    """Installs with the libraries, and moves the tree."""
    first = os.path.join(TREE, "first")
    for component in ([], ["--component", "bundle"]):
        subprocess.run(["cmake", "--install", BUILD, "--prefix", first, *component], check=True,
                       stdout=subprocess.DEVNULL)
    os.rename(first, os.path.join(TREE, "moved"))


def tearDownModule():
    shutil.rmtree(TREE)


class Installed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def moved(self, *path):
        return os.path.join(TREE, "moved", *path)

    def run_command(self, *command, **variables):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", **variables})

    def lossgrid(self, *arguments):
        return self.run_command(self.moved("bin", "lossgrid"), *arguments)

    def cases(self, name):
        """Makes the folder `name` with the suite `mine`."""
        os.makedirs(os.path.join(self.folder, name))
        for source, copy in (("models", "models"), ("smoke", "mine")):
            shutil.copy(os.path.join(ROOT, "cases", source + ".json"),
                        os.path.join(self.folder, name, copy + ".json"))
        return name

    def test_a_moved_tree_runs_in_an_empty_folder(self):
        ended = self.lossgrid("run", "--suite", "smoke", "--impl", "fused")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("24 passed", ended.stdout)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_folder_named_cases_counts_only_if_it_is_asked_for(self):
        self.cases("cases")
        for lossgrid in (self.moved("bin", "lossgrid"), os.path.realpath(sys.argv[1])):
            own = self.run_command(lossgrid, "list", "suites").stdout
            self.assertIn("\nsmoke ", own)
            self.assertNotIn("mine ", own)
            asked = self.run_command(lossgrid, "list", "suites", "--cases", "cases").stdout
            self.assertRegex(asked, r"^mine ")
            self.assertNotIn("smoke ", asked)

    def test_suites_of_another_folder(self):
        self.cases("others")
        for command in (("run", "--impl", "fused"), ("plan",), ("export", "-o", "bundles"),
                        ("mutants", "--impl", "mutant/zero_gradient")):
            ended = self.lossgrid(*command, "--suite", "mine", "--cases", "others")
            self.assertEqual(ended.returncode, 0, f"{command}: {ended.stdout}{ended.stderr}")

    def test_a_folder_of_suites_that_is_not_there(self):
        for command in ("run", "bench", "ab", "plan", "export", "mutants", "list"):
            ended = self.lossgrid(command, "--cases", "nowhere")
            self.assertEqual((ended.returncode, ended.stderr),
                             (65, "lossgrid: --cases = nowhere is not a folder\n"), command)

    def test_libraries_of_the_bundle_are_used_whatever_the_environment_names(self):
        own = self.moved("share", "lossgrid", "lib")
        self.assertIn("libfmt.so.9", os.listdir(own))
        printed = self.run_command("ldd", self.moved("bin", "lossgrid"),
                                   LD_LIBRARY_PATH="/usr/lib/x86_64-linux-gnu").stdout
        places = dict(re.findall(r"(\S+) => (\S+)", printed))
        for name in os.listdir(own):
            self.assertEqual(os.path.realpath(places[name]), os.path.realpath(os.path.join(own, name)))
            self.assertFalse(os.path.islink(os.path.join(own, name)), name)

    def test_adapters_of_frameworks_are_in_the_tree(self):
        adapters = os.listdir(self.moved("share", "lossgrid", "frameworks"))
        self.assertLessEqual({"adapter_kit.py", "torch_losses.py", "versions.json"}, set(adapters))
        self.assertNotIn("findings", adapters)

    @unittest.skipUnless(shutil.which("dpkg-query"), "licenses come with Debian's packages")
    def test_licenses_of_what_is_handed_on_are_in_the_tree(self):
        licenses = os.listdir(self.moved("share", "lossgrid", "licenses"))
        self.assertLessEqual({"libcli11-dev", "libdnnl2", "libfmt9", "libgomp1", "zlib1g"}, set(licenses))

    def test_the_python_package_of_the_tree_starts_its_executable(self):
        package = self.moved("share", "lossgrid", "python")
        ended = self.run_command(sys.executable, "-m", "lossgrid", "run", "--suite", "nothing",
                                 PYTHONPATH=package, PYTHONDONTWRITEBYTECODE="1")
        self.assertEqual(ended.returncode, 65)
        self.assertIn("lossgrid: unknown suite 'nothing'", ended.stderr)
        os.rename(self.moved("bin"), self.moved("elsewhere"))
        self.addCleanup(os.rename, self.moved("elsewhere"), self.moved("bin"))
        ended = self.run_command(sys.executable, "-m", "lossgrid", "--help", PYTHONPATH=package,
                                 PYTHONDONTWRITEBYTECODE="1")
        self.assertEqual(ended.returncode, 65)
        self.assertRegex(ended.stderr, r"^lossgrid: no executable of lossgrid: there is no bin/lossgrid above")

    def test_versions_agree(self):
        self.assertEqual(self.lossgrid("--version").stdout, f"lossgrid {version()}\n")
        ended = self.run_command(sys.executable, "-c", "import lossgrid; print(lossgrid.__version__)",
                                 PYTHONPATH=self.moved("share", "lossgrid", "python"),
                                 PYTHONDONTWRITEBYTECODE="1")
        self.assertEqual(ended.stdout, version() + "\n")

    def test_find_package_takes_this_minor_version_only(self):
        major, minor, _ = map(int, version().split("."))
        script = os.path.join(self.folder, "asks.cmake")
        for wanted, fits in ((f"{major}.{minor}", True), (f"{major}.{minor + 1}", False),
                             (f"{major}.{minor - 1}", False), (f"{major + 1}.{minor}", False),
                             (f"{major}.{minor}.99", False)):
            parts = [*wanted.split("."), "0", "0"]
            with open(script, "w", encoding="utf-8") as file:
                file.write(f"set(PACKAGE_FIND_VERSION {wanted})\n"
                           f"set(PACKAGE_FIND_VERSION_MAJOR {parts[0]})\n"
                           f"set(PACKAGE_FIND_VERSION_MINOR {parts[1]})\n"
                           f"include({self.moved('lib/cmake/lossgrid/lossgridConfigVersion.cmake')})\n"
                           'message("${PACKAGE_VERSION} ${PACKAGE_VERSION_COMPATIBLE}")\n')
            printed = self.run_command("cmake", "-P", script).stderr
            self.assertEqual(printed, f"{version()} {'TRUE' if fits else 'FALSE'}\n", wanted)

    def test_schemas_and_policies_are_valid(self):
        for path in ("schema/policy-1.schema.json", "policies/exact.json"):
            with open(self.moved("share", "lossgrid", path), encoding="utf-8") as file:
                self.assertTrue(json.load(file), path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
