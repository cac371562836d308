# SPDX-License-Identifier: Apache-2.0
"""Test item of pytest that runs ``lossgrid hunt``."""
from __future__ import annotations

import subprocess
from typing import Any, List

import pytest

_NOTHING_RAN = 77
_FAILED = range(10, 20)


class _HuntFailed(Exception):
    """Failure of a hunt, of which only the text is printed."""


class HuntItem(pytest.Item):
    """One hunt: it passes if no case fails within its time."""

    def __init__(self, *, command: List[str], folder: str, **others: Any) -> None:
        super().__init__(**others)
        self._command, self._folder = command, folder

    def runtest(self) -> None:
        ended = subprocess.run([*self._command, "--quiet"], cwd=self._folder, text=True,
                               stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if ended.returncode == _NOTHING_RAN:
            pytest.skip("no case was drawn that the function supports")
        if ended.returncode in _FAILED:
            raise _HuntFailed(ended.stdout.strip())
        if ended.returncode != 0:
            raise _HuntFailed(ended.stderr.strip() or f"lossgrid hunt ended with {ended.returncode}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, _HuntFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> Any:
        return self.path, None, self.name
