# SPDX-License-Identifier: Apache-2.0
"""One trial of an engine: a bigram model, trained or evaluated by user code."""
from __future__ import annotations

from typing import Any, Dict, List

import torch

from lossgrid.change import Change
from lossgrid.errors import ProtocolError
from lossgrid.held import held_gradient, unchanged
from lossgrid.messages import Message, number
from lossgrid.reported import loss_of, metrics_of
from lossgrid.trial import TrialBase


class Bigram(torch.nn.Module):
    """Model from ids [...] (int64) to logits [..., V_t]: a table with the logits after each id.

    ``weight`` [V, V_t]: row v holds the logits of the ids that this rank has, after id v. It is
    float32 if logits are bfloat16, so that its gradient adds up rows, microbatches and ranks in
    float32, like a training stack's main gradient.
    """

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self._dtype = logits.dtype
        kept = torch.float32 if logits.dtype == torch.bfloat16 else logits.dtype
        self.weight = torch.nn.Parameter(logits.to(kept))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(ids, self.weight).to(self._dtype)


class EngineTrial(TrialBase):
    """Trial that runs the whole step in ``forward``, without a separate backward."""

    def forward(self, request: Message) -> Dict[str, Any]:
        change = Change(request.get("change"))
        grad = bool(request.get("grad", True))
        batch = self._batch_with(change)
        stale = None
        if change.kind == "stale_outputs":
            other = self._model(change, rolled=True)
            stale = self.declared.function(other, batch, True, **self._options)
        model = self._model(change)
        before = model.weight.detach().clone()
        collectives = self._begin_phase("forward", request, change)
        phase = self._phase
        assert phase is not None
        value = phase.run(lambda: self._call(model, batch, not grad))
        measured = self._end_phase()
        shown = value if stale is None else stale
        loss = change.loss(loss_of(self.declared.name, shown), self._groups)
        held = self._write_gradient(change, model, value, before) if grad else []
        changed = [] if unchanged(before, model.weight) else ["weight"]
        return {"ok": True, "returned": ["loss"], "loss": number(loss),
                "metrics": {name: number(one) for name, one in metrics_of(shown).items()},
                "held": held, "measured": measured, "changed": changed + batch._changed(),
                "applied": change.applies(self._groups) and
                (collectives.applied or not change.in_calls)}

    def backward(self, request: Message) -> Dict[str, Any]:
        raise ProtocolError("an engine has no backward of its own")

    def _call(self, model: Bigram, batch: Any, evaluate: bool) -> Any:
        with torch.set_grad_enabled(not evaluate):
            return self.declared.function(model, batch, evaluate, **self._options)

    def _table(self, name: str) -> torch.Tensor:
        """Returns [V, V_t] of the arena's [V_t, V], without columns of padding."""
        return self._arena.get(name)[:self._shard.valid].t()

    def _model(self, change: Change, rolled: bool = False) -> Bigram:
        table = self._table("weight").to(self._device).contiguous().clone()
        if change.kind == "round_inputs":
            table = table.to(torch.bfloat16).to(table.dtype)
        return Bigram(table.roll(1, 0) if rolled else table)

    def _write_gradient(self, change: Change, model: Bigram, value: Any,
                        like: torch.Tensor) -> List[List[int]]:
        """Writes the part of the gradient that the rank holds, and returns its ranges."""
        held = held_gradient(self.declared.name, self.declared.gradients, model.weight.grad, value,
                             like)
        found = change.gradients({"weight": held.gradient}, self._groups)["weight"]
        out = self._arena.get("grad.weight")
        with torch.no_grad():
            out.zero_()
            out[:self._shard.valid].copy_(found.t())
        return [list(one) for one in held.ranges or []]
