# SPDX-License-Identifier: Apache-2.0
"""Files of the user that a load depends on, listed for a host that watches them."""
from __future__ import annotations

import os
import sys
import traceback
from typing import Iterator, List, Optional, Sequence, Set

_OF_INSTALLED = ("site-packages", "dist-packages")


class Sources:
    """The loaded files, and modules from their folders that were imported after this was made.

    They are written to ``descriptor``, one path a line, as soon as they are known. Launcher and
    workers append to the same file.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._folders: List[str] = []
        self._before = set(sys.modules)
        self._seen = len(sys.modules)
        self._written: Set[str] = set()

    def add(self, files: Sequence[str]) -> None:
        """Adds files that are about to be loaded."""
        for path in files:
            full = os.path.abspath(path)
            self._folders.append(os.path.dirname(full) + os.sep)
            self._write(full)

    def note_modules(self) -> None:
        """Adds the modules that have been imported since."""
        if len(sys.modules) == self._seen:
            return
        self._seen = len(sys.modules)
        for name, module in list(sys.modules.items()):
            if name not in self._before:
                self._add_own(getattr(module, "__file__", None))

    def note_failure(self, error: BaseException) -> None:
        """Adds the files that an import was in when it failed."""
        self.note_modules()
        for one in _chain(error):
            if isinstance(one, SyntaxError):
                self._add_own(one.filename)
            for frame in traceback.extract_tb(one.__traceback__):
                self._add_own(frame.filename)

    def _add_own(self, path: Optional[str]) -> None:
        for folder in self._folders:
            if path and path.startswith(folder) and path.endswith(".py") and \
                    not any(part in path[len(folder):].split(os.sep) for part in _OF_INSTALLED):
                self._write(path)

    def _write(self, path: str) -> None:
        if path not in self._written:
            self._written.add(path)
            os.write(self._descriptor, (path + "\n").encode())


def _chain(error: Optional[BaseException]) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
