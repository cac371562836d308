# SPDX-License-Identifier: Apache-2.0
"""``lossgrid.hunt``: a hunt for cases that an implementation fails, which lossgrid.pytest collects."""
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple

from lossgrid.errors import BadInput
from lossgrid.testing.suite import Texts, declaration_of, path_from, texts_of


_CALLER = "lossgrid.hunt"


@dataclass(frozen=True)
class Hunt:
    """Cases drawn at random for one implementation."""

    implementation: str
    files: Tuple[str, ...]
    objectives: Tuple[str, ...]
    seconds: float
    cases: Optional[int]
    seed: Optional[int]

    def flags(self, test_file: str, folder: str) -> List[str]:
        """Returns the flags of ``lossgrid hunt`` for a process in ``folder``."""
        flags = ["--impl", self.implementation, "--until-failure"]
        for file in self.files:
            flags += ["--load", path_from(folder, os.path.join(os.path.dirname(test_file), file))]
        if self.objectives:
            flags += ["--objective", ",".join(self.objectives)]
        if self.cases is not None:
            flags += ["--cases", str(self.cases)]
        else:
            flags += ["--seconds", str(self.seconds)]
        if self.seed is not None:
            flags += ["--seed", str(self.seed)]
        return flags


def hunt(function: Callable[..., Any], *, seconds: float = 20, cases: Optional[int] = None,
         seed: Optional[int] = None, objectives: Texts = (), load: Texts = ()) -> Hunt:
    """Returns a hunt for cases that ``function`` fails; in a test module it becomes one test item of
    pytest, which fails with the smallest case that was found::

        test_mine_on_any_case = lossgrid.hunt(mine, seconds=20)

    Args:
        function: a function declared with ``@lossgrid.implementation`` or ``@lossgrid.engine``.
        seconds: time for which cases are drawn.
        cases: number of cases, in place of a time.
        seed: seed of all draws; by default another one for each run, which a failure names.
        objectives: names of objectives; by default all that the function supports.
        load: files that declare the function; by default the file of the function.
    """
    __tracebackhide__ = True
    declared = declaration_of(function, _CALLER)
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds > 0:
        raise BadInput(f"{_CALLER}: seconds={seconds!r} is no number above 0")
    for name, value, least in (("cases", cases, 1), ("seed", seed, 0)):
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise BadInput(f"{_CALLER}: {name}={value!r} is no whole number of at least {least}")
    return Hunt(
        implementation=declared.name, files=texts_of("load", load, _CALLER) or (declared.file,),
        objectives=texts_of("objectives", objectives, _CALLER),
        seconds=float(seconds), cases=cases, seed=seed)
