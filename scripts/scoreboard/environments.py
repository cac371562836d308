# SPDX-License-Identifier: Apache-2.0
"""A virtual environment for each framework, with the versions of impls/frameworks/versions.json.

PyTorch is that of build/venv, and the libraries that several frameworks import are installed once: a
file .pth names both folders.
"""

import functools
import json
import os
import subprocess

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../.."))
ADAPTERS = "impls/frameworks"
FOLDER = "build/frameworks"
TORCH = "build/venv/bin/python"


class CannotRun(Exception):
    """One line: why a framework cannot run here."""


def versions():
    with open(os.path.join(ROOT, ADAPTERS, "versions.json"), encoding="utf-8") as file:
        return json.load(file)


def _printed(*command):
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        lines = (ended.stderr + ended.stdout).strip().splitlines() or ["no output"]
        raise CannotRun(f"{' '.join(command[:4])} ...: {lines[-1]}")
    return ended.stdout.strip()


@functools.cache
def _site(python):
    return _printed(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])")


def _environment(name, packages, beside):
    """Makes build/frameworks/NAME with `packages`, unless it has them, and returns its interpreter.
    It sees the folders `beside`."""
    folder = os.path.join(FOLDER, name)
    python = os.path.join(folder, "bin/python")
    marker = os.path.join(ROOT, folder, "packages.json")
    wanted = {"packages": packages, "beside": beside}
    if os.path.exists(marker):
        with open(marker, encoding="utf-8") as file:
            if json.load(file) == wanted:
                return python
    _printed(TORCH, "-m", "venv", "--clear", "--without-pip", folder)
    with open(os.path.join(_site(python), "beside.pth"), "w", encoding="utf-8") as file:
        file.write("".join(path + "\n" for path in beside))
    if packages:
        _printed(python, "-m", "pip", "install", "--quiet", "--no-deps", *packages)
    with open(marker, "w", encoding="utf-8") as file:
        json.dump(wanted, file)
    return python


def python_of(framework):
    """Returns the interpreter of a framework, relative to the repository. Raises CannotRun."""
    if not os.path.exists(os.path.join(ROOT, TORCH)):
        raise CannotRun("there is no build/venv with PyTorch: scripts/setup test")
    pinned = versions()
    packages = pinned["frameworks"][framework]
    if not packages:
        return TORCH
    torch = _site(TORCH)
    libraries = _site(_environment("libraries", pinned["libraries"], [torch]))
    return _environment(framework, packages, [libraries, torch])


def python_of_all():
    """Returns an interpreter that sees the packages of all frameworks that can be installed, relative
    to the repository. Raises CannotRun where PyTorch is missing."""
    folders = []
    for name, packages in versions()["frameworks"].items():
        try:
            if packages:
                folders.append(_site(python_of(name)))
        except CannotRun:
            if not os.path.exists(os.path.join(ROOT, TORCH)):
                raise
    return _environment("findings", [], [*folders, _site(os.path.join(FOLDER, "libraries/bin/python")),
                                         _site(TORCH)])
