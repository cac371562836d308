# SPDX-License-Identifier: Apache-2.0
"""``lossgrid.suite``: trials of an implementation as a value, which lossgrid.pytest collects."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

from lossgrid.declaration import Declaration, registered
from lossgrid.errors import BadInput

Texts = Union[str, Sequence[str]]


@dataclass(frozen=True)
class Suite:
    """Trials of one implementation: of suites or cases, on grids."""

    name: str  # name of the implementation
    implementation: str  # name and options, as for --impl
    files: Tuple[str, ...]
    suites: Tuple[str, ...]
    cases: Tuple[str, ...]
    grids: Tuple[str, ...]

    def flags(self, test_file: str, folder: str) -> List[str]:
        """Returns the flags of ``lossgrid run`` for a process in ``folder``."""
        flags: List[str] = []
        for file in self.files:
            flags += ["--load", path_from(folder, os.path.join(os.path.dirname(test_file), file))]
        flags += ["--impl", self.implementation]
        if self.suites:
            flags += ["--suite", ",".join(_suite(one, test_file, folder) for one in self.suites)]
        for case in self.cases:
            flags += ["--case", case]
        if self.grids:
            flags += ["--grid", ",".join(self.grids)]
        return flags


def suite(function: Callable[..., Any], *, suite: Texts = (), cases: Texts = (), grids: Texts = (),
          options: Optional[Mapping[str, Any]] = None, load: Texts = ()) -> Suite:
    """Returns the trials of ``function``; in a test module each becomes a test item of pytest::

        test_mine = lossgrid.suite(mine, suite="smoke", grids=["tp2cp2"])

    Args:
        function: a function declared with ``@lossgrid.implementation`` or ``@lossgrid.engine``.
        suite: names of suites, or paths from the folder of the test module.
        cases: cases as for ``--case``, in place of a suite.
        grids: process grids; by default the grids of the suite, or tp1cp1 for cases.
        options: values of options of the function; by default it is run with every value that an
            option offers.
        load: files that declare the function; by default the file of the function.
    """
    __tracebackhide__ = True
    declared = declaration_of(function, "lossgrid.suite")
    suites, texts = texts_of("suite", suite), texts_of("cases", cases)
    if bool(suites) == bool(texts):
        raise BadInput(f"lossgrid.suite({declared.name}, ...) needs either suite= or cases=")
    given = ":".join(f"{name}={value}" for name, value in (options or {}).items())
    return Suite(
        name=declared.name,
        implementation=declared.name + (f":{given}" if given else ""),
        files=texts_of("load", load) or (declared.file,), suites=suites, cases=texts,
        grids=texts_of("grids", grids))


def declaration_of(function: Any, caller: str) -> Declaration:
    """Returns the declaration of a function. Raises BadInput that begins with the caller."""
    __tracebackhide__ = True
    for declared in registered():
        if declared.function is function:
            return declared
    name = getattr(function, "__name__", repr(function))
    raise BadInput(f"{caller}: {name} is not declared with @lossgrid.implementation or "
                   "@lossgrid.engine")


def texts_of(argument: str, value: Any, caller: str = "lossgrid.suite") -> Tuple[str, ...]:
    """Returns one text or several as a tuple. Raises BadInput that begins with the caller."""
    __tracebackhide__ = True
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, (tuple, list)) or \
            any(not isinstance(one, str) or not one for one in texts):
        raise BadInput(f"{caller}: {argument}={value!r} is neither a text nor a list of texts")
    return tuple(texts)


def path_from(folder: str, path: str) -> str:
    """Returns ``path`` relative to ``folder``."""
    relative = os.path.relpath(path, folder)
    return os.path.normpath(path) if relative.startswith(os.pardir) else relative


def _suite(name_or_path: str, test_file: str, folder: str) -> str:
    path = os.path.join(os.path.dirname(test_file), name_or_path)
    return path_from(folder, path) if os.path.isfile(path) else name_or_path
