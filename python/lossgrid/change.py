# SPDX-License-Identifier: Apache-2.0
"""Mistakes around a function: one change of its inputs, outputs or gradients."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch

from lossgrid.errors import ProtocolError
from lossgrid.groups import GridGroups
from lossgrid.measure.collectives import CALL_CHANGES

_AROUND = ("gradient_factor", "entropy_gradient_factor", "gradient_zero_last_tp", "roll_labels",
           "round_inputs", "stale_outputs", "ignore_mask", "latest_state")


class Change:
    """The change that a request names; None changes nothing."""

    def __init__(self, message: Optional[Mapping[str, Any]]) -> None:
        self.message = message
        self.kind = str(message["kind"]) if message else ""
        if message and self.kind not in _AROUND + CALL_CHANGES:
            raise ProtocolError(f"change {self.kind!r} is not one of " +
                                ", ".join(CALL_CHANGES + _AROUND))

    @property
    def in_calls(self) -> bool:
        return self.kind in CALL_CHANGES

    @property
    def in_batch(self) -> bool:
        return self.kind in ("roll_labels", "ignore_mask")

    def upstream(self, names: Sequence[str], of_outputs: List[torch.Tensor]) -> List[torch.Tensor]:
        """Returns the gradients of the outputs ``names`` that the backward starts from."""
        if self.kind != "entropy_gradient_factor" or self.message is None:
            return of_outputs
        factor = float(self.message["factor"])
        return [gradient * factor if name == "entropy" else gradient
                for name, gradient in zip(names, of_outputs)]

    def gradients(self, found: Dict[str, torch.Tensor],
                  groups: GridGroups) -> Dict[str, torch.Tensor]:
        """Returns the gradients that are reported in place of ``found``."""
        factor = 1.0
        if self.kind == "gradient_factor" and self.message is not None:
            factor = float(self.message["factor"])
        elif self.kind == "gradient_zero_last_tp" and groups.tp.rank == groups.tp.size - 1:
            return {name: torch.zeros_like(one) for name, one in found.items()}
        if factor == 1.0:
            return found
        return {name: one.detach() * factor for name, one in found.items()}
