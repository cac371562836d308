# SPDX-License-Identifier: Apache-2.0
"""Numbers that an engine returns: the loss and metrics."""
from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

import torch

from lossgrid.errors import BadInput


def loss_of(name: str, value: Any) -> float:
    """Returns the loss in the returned value of the engine ``name``."""
    if isinstance(value, Mapping):
        if "loss" not in value:
            raise BadInput(f'{name} returned a dict without "loss": ' +
                           (", ".join(str(key) for key in value) or "it is empty"))
        value = value["loss"]
    if value is None:
        raise BadInput(f"{name} returned no loss on this rank: every rank reports that of the "
                       "global batch")
    if isinstance(value, torch.Tensor) and value.numel() != 1:
        raise BadInput(f"{name} returned {list(value.shape)} for loss, wanted a scalar")
    loss = _number(value)
    if loss is None:
        raise BadInput(f"{name} returned {type(value).__name__}, wanted the loss: a number, a "
                       'scalar tensor or a dict with "loss"')
    return loss


def metrics_of(value: Any) -> Dict[str, float]:
    """Returns the numbers other than the loss, and leaves out values that are no numbers."""
    if not isinstance(value, Mapping):
        return {}
    numbers = {str(key): _number(one) for key, one in value.items() if key not in ("loss", "own")}
    return {key: one for key, one in numbers.items() if one is not None}


def _number(value: Any) -> Optional[float]:
    if isinstance(value, torch.Tensor):
        return float(value.detach().double().item()) if value.numel() == 1 else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)
