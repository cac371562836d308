# SPDX-License-Identifier: Apache-2.0
"""A dispatch mode that does not import the compiler of torch."""
from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class LightMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The base of the modes that measure. Torch would import torch._dynamo when a mode is used
    first: seconds in every worker. Compiled functions run uncompiled under any mode."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
