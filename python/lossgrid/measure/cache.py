# SPDX-License-Identifier: Apache-2.0
"""A walk over memory, after which caches hold nothing of use to the phase that follows."""
from __future__ import annotations

from typing import Dict, Tuple

import torch

_WORD = torch.int64
_WORD_BYTES = 8

_words: Dict[Tuple[str, int], torch.Tensor] = {}  # by device and size; one worker walks a few


def walk_cache(device: torch.device, size: int) -> None:
    """Reads ``size`` bytes on ``device``, and writes none that would have to be written back. On a
    GPU the walk is launched on the current stream."""
    key = (str(device), size)
    if key not in _words:
        # Written by the fill, so that it has pages of its own and not one page of zeros.
        _words[key] = torch.ones(max(1, size // _WORD_BYTES), dtype=_WORD, device=device)
    _words[key].sum()
