# SPDX-License-Identifier: Apache-2.0
"""Packages whose code an implementation runs, with their versions, for the report."""
from __future__ import annotations

import importlib
import importlib.metadata
import os
import subprocess
import sys
from typing import Dict, Optional

from lossgrid import stubs
from lossgrid.errors import BadInput

_by_file: Dict[str, Dict[str, str]] = {}  # file of the user -> package -> version


def packages(*names: str) -> Dict[str, str]:
    """Names the packages whose code the functions of this file run, and returns their versions.

    Called at the top of the file. The report has them in ``details.packages`` of every trial.

    Raises:
        BadInput: one of them is not installed.
    """
    found: Dict[str, str] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise BadInput(f"{sys.executable} has no package {name}: {sys.executable} -m pip "
                           f"install {name}") from None
    _note(found)
    return found


def source(variable: str, package: str) -> str:
    """Makes the package in the source folder that an environment variable names importable, and returns
    its version: the commit of the folder, or ``__version__`` of the package.

    Called at the top of the file, before the package is imported. The report has the version, as
    those of :func:`packages`.

    Raises:
        BadInput: the variable is not set, or names no folder with the package.
    """
    folder = os.environ.get(variable)
    if not folder:
        raise BadInput(f"{variable} is not set: it names a folder with the source of {package}")
    if not os.path.isfile(os.path.join(folder, package, "__init__.py")):
        raise BadInput(f"{variable}={folder} has no {package}/__init__.py")
    folder = os.path.realpath(folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    version = _commit(folder) or importlib.import_module(package).__version__
    _note({package: str(version)})
    return str(version)


def _commit(folder: str) -> Optional[str]:
    """Returns the commit of a folder that is a work tree of git."""
    try:
        ended = subprocess.run(["git", "-C", folder, "rev-parse", "--show-toplevel", "HEAD"],
                               capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    top, commit = ended.stdout.splitlines()
    return commit[:8] if os.path.realpath(top) == folder else None


def _note(versions: Dict[str, str]) -> None:
    """Stores versions for the file that called the caller of this function."""
    file = os.path.abspath(sys._getframe(2).f_code.co_filename)
    _by_file.setdefault(file, {}).update(versions)


def details_of(file: str) -> Dict[str, str]:
    """Returns texts by name: packages of the functions in ``file``, stand-ins, patches."""
    found = {
        "packages": [f"{name} {version}" for name, version in _by_file.get(file, {}).items()],
        "stubs": stubs.installed(),
        "patched": stubs.patched(),
    }
    return {name: ", ".join(texts) for name, texts in found.items() if texts}
