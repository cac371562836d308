#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/setup with programs that stand for apt-get, dpkg-query, id, sudo and the compiler."""

import sys
import unittest

from stand_ins import ScriptTest

# Dependencies of tests alone: no newcomer has to install them.
OF_TESTS = {"chromium", "prometheus", "libgtest-dev", "libgmock-dev", "libbenchmark-dev",
            "libbenchmark-tools", "python3-jsonschema", "python3-numpy", "python3-scipy",
            "python3-prometheus-client", "python3-venv", "libxml2-utils", "jq", "zsh", "groff-base",
            "clang-19", "libomp-19-dev", "libclang-rt-19-dev", "pypi:torch", "pypi:universalmutator"}
OF_MPI = {"libopenmpi-dev", "openmpi-bin"}


class Setup(ScriptTest):
    def setUp(self):
        super().setUp()
        self.copy_script("setup")
        self.link("bash", "cat", "chmod", "cut", "dirname", "env", "grep", "mkdir", "sed", "sh", "sleep",
                  "tail")
        self.be_user(0)

    def be_user(self, number):
        self.stand_in("bin/id", f"echo {number}")

    def debian(self, missing=(), status=0):
        """Makes a Debian in which all requested packages but `missing` are installed."""
        self.stand_in("bin/apt-get", status=status)
        self.stand_in("bin/dpkg-query", f"""
shift 2
for package in "$@"; do
  case " {' '.join(missing)} " in
    *" $package "*) ;;
    *) echo "$package installed" ;;
  esac
done""")

    def tools(self, missing_header="none"):
        for program in ("cmake", "ninja"):
            self.stand_in(f"bin/{program}")
        self.stand_in("bin/c++", f'! grep -q "<{missing_header}>"; exit $?')

    def pypi(self, pip="", status=0):
        """Makes a python3 for a venv in which pip runs `pip` and ends with `status`; PyTorch can be
        imported once pip has ended with 0."""
        self.stand_in("bin/python3", f"""
mkdir -p "$3/bin"
cat >"$3/bin/python" <<'END'
#!/bin/sh
echo "venv $*" >>"{self.calls_path}"
case "$*" in
  *pip*) {pip or ":"}
    [ {status} -ne 0 ] || echo there >"{self.root}/torch"
    exit {status} ;;
  *) grep there "{self.root}/torch" ;;
esac
END
chmod +x "$3"/bin/python""")

    def have_torch(self):
        self.stand_in("build/venv/bin/python")
        self.have_mutator()

    def have_cutlass(self):
        self.stand_in("build/cutlass/bin/python")

    def have_mutator(self):
        self.stand_in("build/mutate/venv/bin/python")

    def setup_of(self, *arguments):
        return self.run_script("setup", *arguments, path=self.bin)

    def missing(self, *jobs):
        self.stand_in("bin/apt-get")
        self.stand_in("bin/dpkg-query", status=1)
        ended = self.setup_of("--missing", *jobs)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return set(ended.stdout.split())

    def test_a_run_needs_neither_tests_nor_mpi_nor_a_browser(self):
        run = self.missing("run")
        self.assertLessEqual({"g++", "cmake", "ninja-build", "libfmt-dev", "libdnnl-dev"}, run)
        self.assertFalse(run & (OF_TESTS | OF_MPI | {"clang-format", "clang-tidy", "git"}))
        self.assertEqual(self.missing("mpi"), run | OF_MPI)
        self.assertEqual(self.missing("test"), run | OF_MPI | OF_TESTS | {"python3", "git"})
        self.assertEqual(self.missing("format"), {"git", "clang-format"})
        self.assertEqual(self.missing("tidy"), {"clang-tidy-19", "libomp-19-dev"})
        self.assertEqual(self.missing("mutate"), {"python3", "python3-venv", "pypi:universalmutator"})
        self.assertEqual(self.missing("wheel"), self.missing("run") | {"python3", "python3-venv"})
        self.assertEqual(self.missing("cutlass"), {"python3", "python3-venv", "pypi:nvidia-cutlass"})
        self.assertEqual(self.missing("arm"), self.missing("run") | {"g++-aarch64-linux-gnu", "qemu-user"})
        self.assertEqual(self.missing(), self.missing("test", "format", "tidy", "fuzz", "cutlass", "arm"))

    def test_nothing_is_done_where_all_is_there(self):
        self.debian()
        self.have_torch()
        self.have_cutlass()
        ended = self.setup_of("run")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(ended.stdout, "setup: all that is needed for run is installed\n")
        self.assertEqual(self.setup_of("--missing").stdout, "")
        self.assertEqual(self.calls("apt-get"), [])

    def test_what_is_missing_is_installed(self):
        self.debian(missing=("libfmt-dev", "cmake", "chromium"))
        ended = self.setup_of("run")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.calls("apt-get"), ["apt-get update -qq", "apt-get install -y -qq "
                                                 "--no-install-recommends cmake libfmt-dev"])

    def test_sudo_is_used_where_the_user_is_not_root(self):
        self.debian(missing=("cmake",))
        self.be_user(1000)
        self.stand_in("bin/sudo", '"$@"')
        self.assertEqual(self.setup_of("run").returncode, 0)
        self.assertEqual(len(self.calls("sudo env DEBIAN_FRONTEND=noninteractive apt-get")), 2)

    def test_an_installation_that_fails_is_reported(self):
        self.debian(missing=("cmake",), status=100)
        ended = self.setup_of("run")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr, "setup: apt-get could not install cmake\n")

    def test_without_root_or_sudo_what_is_missing_is_named(self):
        self.debian(missing=("libfmt-dev", "libcli11-dev"))  # the latter is there from elsewhere
        self.be_user(1000)
        self.tools(missing_header="fmt/format.h")
        for arguments in (("run",), ("--missing", "run")):
            ended = self.setup_of(*arguments)
            self.assertEqual((ended.returncode, ended.stdout), (65, ""))
            self.assertEqual(ended.stderr, "setup: apt-get needs root or sudo; please install what "
                             "run needs: header fmt/format.h (Debian: libfmt-dev)\n")
        self.assertEqual(self.calls("apt-get"), [])

    def test_elsewhere_than_on_debian_what_is_missing_is_named(self):
        self.tools(missing_header="zlib.h")
        self.stand_in("bin/ninja")
        ended = self.setup_of("run")
        self.assertEqual(ended.returncode, 65)
        self.assertEqual(ended.stderr, "setup: this system has no apt-get; please install what run "
                         "needs: header zlib.h (Debian: zlib1g-dev)\n")

    def test_elsewhere_nothing_is_wrong_where_all_is_there(self):
        self.tools()
        ended = self.setup_of("run")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_elsewhere_without_a_compiler_headers_are_looked_for_as_files(self):
        ended = self.setup_of("run")
        self.assertEqual(ended.returncode, 65)
        self.assertIn("command c++ (Debian: g++), command cmake (Debian: cmake)", ended.stderr)
        self.assertNotIn("zlib.h", ended.stderr)  # tests have it in /usr/include

    def test_torch_comes_from_pypi_once(self):
        self.debian()
        self.have_mutator()
        self.pypi()
        self.assertEqual(self.setup_of("--missing", "test").stdout, "pypi:torch\n")
        self.assertEqual(self.calls("venv"), [])
        first = self.setup_of("test")
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        self.assertRegex(first.stdout, r"installing PyTorch .*5\.4 GB, 2 to 6 min; log: build/venv\.log")
        packages = " torch numpy pytest pytest-xdist"
        installs = [call for call in self.calls("venv") if call.endswith(packages)]
        self.assertEqual(len(installs), 1)
        self.assertEqual(self.setup_of("--missing", "test").stdout, "")
        again = self.setup_of("test")
        self.assertEqual(again.stdout, "setup: all that is needed for test is installed\n")
        self.assertEqual([call for call in self.calls("venv") if call.endswith(packages)], installs)

    def test_only_tests_need_torch(self):
        self.debian()
        self.pypi()
        for job in ("run", "mpi", "format"):
            self.assertEqual(self.setup_of(job).stdout,
                             f"setup: all that is needed for {job} is installed\n")
        self.assertEqual(self.calls("venv"), [])

    def test_without_pypi_packages_alone_are_installed(self):
        self.debian(missing=["cmake"])
        self.pypi()
        ended = self.setup_of("--no-pypi", "test", "mutate")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(self.calls("venv"), [])
        self.assertIn("setup: installing cmake", ended.stdout)

    def test_headers_of_cutlass_come_from_pypi_once_and_alone(self):
        self.debian()
        self.pypi()
        first = self.setup_of("cutlass")
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        installs = [call for call in self.calls("venv") if call.endswith(" nvidia-cutlass==4.2.0.0 --no-deps")]
        self.assertEqual(len(installs), 1)
        self.have_cutlass()
        self.assertEqual(self.setup_of("cutlass").stdout,
                         "setup: all that is needed for cutlass is installed\n")
        self.assertEqual(self.setup_of("--missing", "test", "run").stdout.count("cutlass"), 0)

    def test_without_pypi_a_warning_names_what_builds_lack(self):
        self.debian()
        self.pypi(status=1, pip='echo "ERROR: No matching distribution found for nvidia-cutlass"')
        ended = self.setup_of("cutlass")
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stderr, "setup: warning: no nvidia-cutlass, builds are without forward=tiles on "
                         "GPUs: No matching distribution found for nvidia-cutlass (log: build/cutlass.log)\n")

    def test_universalmutator_comes_from_pypi_once(self):
        self.debian()
        self.pypi()
        self.assertEqual(self.setup_of("--missing", "mutate").stdout, "pypi:universalmutator\n")
        first = self.setup_of("mutate")
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        installs = [call for call in self.calls("venv") if call.endswith(" universalmutator")]
        self.assertEqual(len(installs), 1)
        self.have_mutator()
        self.assertEqual(self.setup_of("mutate").stdout,
                         "setup: all that is needed for mutate is installed\n")

    def test_without_pypi_a_warning_names_the_program_that_does_not_run(self):
        self.debian()
        self.pypi(status=1, pip='echo "ERROR: No matching distribution found for universalmutator"')
        ended = self.setup_of("mutate")
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stderr, "setup: warning: no universalmutator, scripts/mutate does not run: "
                         "No matching distribution found for universalmutator "
                         "(log: build/mutate/venv.log)\n")

    def test_without_pypi_there_is_a_warning_with_the_reason(self):
        self.debian(missing=("cmake",))
        self.have_mutator()
        self.pypi(status=1, pip="""
    echo "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<urllib3.\
HTTPSConnection>: Failed to establish a new connection: [Errno 111] Connection refused')': /torch/"
    echo "ERROR: No matching distribution found for torch" """)
        ended = self.setup_of("test")
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stderr,
                         "setup: warning: no PyTorch, tests that need it are skipped: No matching "
                         "distribution found for torch ([Errno 111] Connection refused) "
                         "(log: build/venv.log)\n")
        self.assertIn("setup: installing cmake\n", ended.stdout)
        self.assertIn("setup: done\n", ended.stdout)

    def test_a_venv_that_cannot_be_made_is_a_warning(self):
        self.debian()
        self.have_mutator()
        self.stand_in("bin/python3", "echo no module named venv", status=1)
        ended = self.setup_of("test")
        self.assertEqual(ended.returncode, 0)
        self.assertIn("are skipped: no module named venv (log", ended.stderr)

    def test_usage(self):
        ended = self.setup_of("everything")
        self.assertEqual(ended.returncode, 64)
        self.assertTrue(ended.stderr.startswith("usage: scripts/setup "))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
