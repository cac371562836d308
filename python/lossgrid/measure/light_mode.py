# SPDX-License-Identifier: Apache-2.0
"""A dispatch mode that does not import the compiler of torch."""
from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ContextManager

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_HAS_GUARD = hasattr(torch._C, "_ExcludeDispatchKeyGuard")
if _HAS_GUARD:
    _MODES = torch._C.DispatchKeySet(torch._C.DispatchKey.Python) | \
        torch._C.DispatchKeySet(torch._C.DispatchKey.PythonTLSSnapshot)


def without_modes() -> ContextManager[Any]:
    """Returns a context in which no mode sees operators, where this torch has one."""
    return torch._C._ExcludeDispatchKeyGuard(_MODES) if _HAS_GUARD else nullcontext()


class LightMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base of the modes that measure. Torch would import torch._dynamo at the first use of a mode,
    which takes seconds in every worker. Compiled functions run uncompiled under any mode."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
