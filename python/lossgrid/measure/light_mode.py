# SPDX-License-Identifier: Apache-2.0
"""A dispatch mode that does not import the compiler of torch."""
from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class LightMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Base of the modes that measure. Torch would import torch._dynamo at the first use of a mode,
    which takes seconds in every worker. Compiled functions run uncompiled under any mode."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
