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
# Changes of an engine: of gradient and loss, which should be equal on all ranks over DP and CP.
_OF_REPLICAS = ("gradient_not_reduced", "gradient_on_first_rank", "loss_on_first_rank")


class Change:
    """Change named by a request; None changes nothing."""

    def __init__(self, message: Optional[Mapping[str, Any]]) -> None:
        self.message = message
        self.kind = str(message["kind"]) if message else ""
        known = CALL_CHANGES + _AROUND + _OF_REPLICAS
        if message and self.kind not in known:
            raise ProtocolError(f"change {self.kind!r} is not one of " + ", ".join(known))

    @property
    def in_calls(self) -> bool:
        return self.kind in CALL_CHANGES

    @property
    def in_batch(self) -> bool:
        return self.kind in ("roll_labels", "ignore_mask")

    def upstream(self, names: Sequence[str], of_outputs: List[torch.Tensor]) -> List[torch.Tensor]:
        """Returns the gradients of the outputs ``names`` from which the backward starts."""
        if self.kind != "entropy_gradient_factor" or self.message is None:
            return of_outputs
        factor = float(self.message["factor"])
        return [gradient * factor if name == "entropy" else gradient
                for name, gradient in zip(names, of_outputs)]

    def applies(self, groups: GridGroups) -> bool:
        """True unless the change is about replicas and every replica is the only one."""
        return self.kind not in _OF_REPLICAS or groups.dp.size * groups.cp.size > 1

    def loss(self, found: float, groups: GridGroups) -> float:
        """Returns the loss to report in place of ``found``; its mean over the ranks is
        ``found``."""
        if self.kind != "loss_on_first_rank":
            return found
        first = groups.dp.rank == groups.cp.rank == 0
        return found * groups.dp.size * groups.cp.size if first else 0.0

    def gradients(self, found: Dict[str, torch.Tensor],
                  groups: GridGroups) -> Dict[str, torch.Tensor]:
        """Returns the gradients to report in place of ``found``."""
        factor = 1.0
        if self.kind == "gradient_factor" and self.message is not None:
            factor = float(self.message["factor"])
        elif self.kind == "gradient_zero_last_tp" and groups.tp.rank == groups.tp.size - 1:
            return {name: torch.zeros_like(one) for name, one in found.items()}
        if self.kind in _OF_REPLICAS:
            return {name: self._of_replica(one, groups) for name, one in found.items()}
        if factor == 1.0:
            return found
        return {name: one.detach() * factor for name, one in found.items()}

    def _of_replica(self, whole: torch.Tensor, groups: GridGroups) -> torch.Tensor:
        """Returns the part of ``whole`` that this rank shows; its mean over the ranks is
        ``whole``."""
        ranks = groups.dp.size * groups.cp.size
        rank = groups.dp.rank * groups.cp.size + groups.cp.rank
        if self.kind == "gradient_not_reduced":  # every rank has other rows
            own = torch.arange(len(whole), device=whole.device) % ranks == rank
            return torch.where(own[:, None], whole * ranks, torch.zeros_like(whole))
        if self.kind == "gradient_on_first_rank":
            return whole * ranks if rank == 0 else torch.zeros_like(whole)
        return whole
