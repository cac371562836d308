# SPDX-License-Identifier: Apache-2.0
"""Trial: forwards and backwards of a function on one pack."""
from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, ContextManager, Dict, List, Optional

import torch

from lossgrid.arena import Arena
from lossgrid.batch import Batch
from lossgrid.batch_data import BatchData
from lossgrid.change import Change
from lossgrid.declaration import Declaration
from lossgrid.errors import ProtocolError
from lossgrid.groups import GridGroups, World
from lossgrid.inputs import Input, InputMaker
from lossgrid.measure.cache import walk_cache
from lossgrid.measure.collectives import Collectives
from lossgrid.measure.memory import LiveStorages
from lossgrid.measure.phase import Phase
from lossgrid.messages import Message, number
from lossgrid.options import Option
from lossgrid.problem import Problem
from lossgrid.returned import (Backward, Returned, by_name, output_arrays, split_own,
                               write_outputs)
from lossgrid.shard import Shard


@dataclass
class _Forward:
    """State of a forward that its backward needs."""

    change: Change
    batch: Batch
    inputs: List[Input]
    returned: Returned
    backward: Optional[Backward]  # from a function that makes gradients itself


class TrialBase:
    """Base of the trials of implementations and engines: batch, phases, measurement."""

    def __init__(self, world: World, declared: Declaration, options: Dict[str, Option],
                 problem: Problem, arena: Arena) -> None:
        self.declared = declared
        self._options = options
        self._world = world
        self._groups: GridGroups = world.grid(problem.grid)
        self._device = world.device(problem.device)
        self._arena = arena
        self._problem = problem
        self._storages = LiveStorages()
        self._phase: Optional[Phase] = None
        self._shard = Shard(problem.vocab, problem.grid.tp, self._groups.tp.rank,
                            declared.vocab_split)
        self._data = BatchData(problem, self._groups, self._device, arena, self._pause,
                               self._shard)
        self._batch = Batch(self._data)

    def _pause(self) -> ContextManager[None]:
        return nullcontext() if self._phase is None else self._phase.pause()

    def _batch_with(self, change: Change) -> Batch:
        if not change.in_batch:
            self._batch._restore()
            return self._batch
        return Batch(replace(self._data, roll_labels=change.kind == "roll_labels",
                             ignore_mask=change.kind == "ignore_mask"))

    def _begin_phase(self, name: str, request: Message, change: Change) -> Collectives:
        collectives = Collectives(self._groups, name, change.message)
        observed = request.get("trace", False) or change.in_calls
        self._phase = Phase(self._device, self._storages if request.get("memory") else None,
                            collectives if observed else None)
        if request.get("walk_bytes"):
            walk_cache(self._device, int(request["walk_bytes"]))
        if request.get("barrier"):
            self._world.barrier()
        return collectives

    def _end_phase(self) -> Dict[str, Any]:
        assert self._phase is not None
        measured = self._phase.message()
        self._phase = None
        return measured


class Trial(TrialBase):
    """A trial of an implementation."""

    _latest: "ClassVar[Optional[Trial]]" = None  # trial of the latest forward with gradients

    def __init__(self, world: World, declared: Declaration, options: Dict[str, Option],
                 problem: Problem, arena: Arena) -> None:
        super().__init__(world, declared, options, problem, arena)
        self._maker = InputMaker(declared, problem, self._shard, arena, self._device)
        self._forward: Optional[_Forward] = None

    def forward(self, request: Message) -> Dict[str, Any]:
        self._forward = None  # graph and leaves of the previous forward
        change = Change(request.get("change"))
        grad = bool(request.get("grad", True))
        batch = self._batch_with(change)
        stale = self._call_on_other_inputs(batch) if change.kind == "stale_outputs" else None
        inputs = self._maker.make(grad, bool(request.get("protect", True)),
                                  rounded=change.kind == "round_inputs")
        collectives = self._begin_phase("forward", request, change)
        phase = self._phase
        assert phase is not None
        value = phase.run(lambda: self._call(inputs, batch, grad))
        measured = self._end_phase()
        returned, backward = self._checked(value, inputs, batch, grad)
        if stale is not None:
            returned.show_values_of(stale)
        write_outputs(returned, self._arena)
        if grad:
            self._forward = _Forward(change, batch, inputs, returned, backward)
            Trial._latest = self
        return {"ok": True, "returned": returned.names, "loss": number(returned.loss()),
                "without_graph": returned.without_graph, "measured": measured, "changed": self._changed(inputs, batch),
                "applied": collectives.applied or not change.in_calls}

    def backward(self, request: Message) -> Dict[str, Any]:
        done, self._forward = self._forward, None
        if done is None:
            raise ProtocolError('backward comes after a forward with "grad": true')
        if done.change.kind == "latest_state":
            done = self._exchanged(done)
        upstream = done.change.upstream(
            done.returned.names,
            self._upstream(done.returned, float(request.get("loss_gradient", 1.0))))
        collectives = self._begin_phase("backward", request, done.change)
        phase = self._phase
        assert phase is not None
        if done.backward is not None:
            own = done.backward
            result = phase.run(lambda: self._own_backward(own, upstream))
            measured = self._end_phase()
            gradients = self._maker.check_gradients(done.inputs, result)
        else:
            phase.run(lambda: self._autograd_backward(done.returned, upstream))
            measured = self._end_phase()
            gradients = self._maker.gradients_of(done.inputs)
        self._maker.write_gradients(done.change.gradients(gradients, self._groups))
        return {"ok": True, "measured": measured,
                "gradient_dtypes": {name: str(one.dtype).replace("torch.", "")
                                    for name, one in gradients.items()},
                "changed": self._changed(done.inputs, done.batch),
                "applied": collectives.applied or not done.change.in_calls}

    def _exchanged(self, own: _Forward) -> _Forward:
        """Returns the state of the latest forward, whose trial gets ``own`` instead."""
        latest = Trial._latest
        if latest is None or latest._forward is None:
            return own
        other, latest._forward = latest._forward, own
        return other

    def _call(self, inputs: List[Input], batch: Batch, grad: bool) -> Any:
        tracked = grad and self.declared.autograd != "own"
        given = {one.name: one.given for one in inputs}
        batch._bias = given.pop("bias", None)  # by name, beside other arguments
        with torch.set_grad_enabled(tracked):
            return self.declared.function(*given.values(), batch, **self._options)

    def _checked(self, value: Any, inputs: List[Input], batch: Batch,
                 grad: bool) -> "tuple[Returned, Optional[Backward]]":
        backward: Optional[Backward] = None
        if self.declared.autograd == "own":
            value, backward = split_own(self.declared, value)
        graph = any(one.leaf.requires_grad and one.leaf.numel() > 0 for one in inputs)
        return Returned(self.declared, batch, self._device, by_name(self.declared, value),
                        graph), backward

    def _call_on_other_inputs(self, batch: Batch) -> Returned:
        inputs = self._maker.make(False, False, rolled=True)
        return self._checked(self._call(inputs, batch, False), inputs, batch, False)[0]

    def _upstream(self, returned: Returned, of_loss: float) -> List[torch.Tensor]:
        if "loss" in returned.names:
            return [torch.full_like(tensor, of_loss) for tensor in returned.tensors()]
        return [returned.upstream(name, self._arena.get("upstream." + array).to(self._device))
                for name, array in output_arrays(returned).items()]

    @staticmethod
    def _autograd_backward(returned: Returned, upstream: List[torch.Tensor]) -> None:
        pairs = [(tensor, gradient) for tensor, gradient in zip(returned.tensors(), upstream)
                 if tensor.requires_grad]
        if pairs:
            torch.autograd.backward([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    @staticmethod
    def _own_backward(backward: Backward, upstream: List[torch.Tensor]) -> Any:
        with torch.no_grad():
            return backward(*upstream)

    def _changed(self, inputs: List[Input], batch: Batch) -> List[str]:
        """Returns the names of inputs and arrays whose bits changed without declaration."""
        own = [one.name for one in inputs
               if one.name not in self.declared.overwrites and one.changed()]
        return own + batch._changed()
