# SPDX-License-Identifier: Apache-2.0
"""Walk over memory, after which caches hold no data of the next phase."""
from __future__ import annotations

from typing import Dict, Tuple

import torch

_WORD = torch.int64
_WORD_BYTES = 8

_words: Dict[Tuple[str, int], torch.Tensor] = {}  # by device and size; one worker walks a few


def walk_cache(device: torch.device, size: int) -> None:
    """Reads ``size`` bytes on ``device``, and leaves no cache line to write back. On a GPU the walk
    is launched on the current stream."""
    key = (str(device), size)
    if key not in _words:
        # Written by the fill, so that it has its own pages instead of one page of zeros.
        _words[key] = torch.ones(max(1, size // _WORD_BYTES), dtype=_WORD, device=device)
    _words[key].sum()
