# SPDX-License-Identifier: Apache-2.0
"""Input tensors of a function, made from the arena for one forward."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from lossgrid.arena import Arena
from lossgrid.declaration import Declaration
from lossgrid.errors import BadInput
from lossgrid.problem import Problem
from lossgrid.shard import Shard
from lossgrid.views import Watched


class _SameMemory(torch.autograd.Function):
    """Tensor over the memory of a leaf that is no view for autograd and may be overwritten."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor) -> torch.Tensor:
        return leaf.data

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> torch.Tensor:
        return upstream[0]


class Input:
    """One input: a leaf, and the tensor over it that the function gets."""

    def __init__(self, name: str, leaf: torch.Tensor, autograd: str, grad: bool,
                 watch: bool) -> None:
        self.name = name
        self.leaf = leaf.requires_grad_(grad and autograd != "own")
        self.given = self.leaf
        if autograd == "nonleaf" and self.leaf.requires_grad:
            self.given = _SameMemory.apply(self.leaf)
        self._watched = Watched(self.leaf) if watch else None

    def changed(self) -> bool:
        return self._watched is not None and self._watched.changed()


class InputMaker:
    """Makes the inputs of one trial and writes their gradients."""

    def __init__(self, declared: Declaration, problem: Problem, shard: Shard, arena: Arena,
                 device: torch.device) -> None:
        self._declared = declared
        self._problem = problem
        self._shard = shard
        self._arena = arena
        self._device = device
        self._names: Tuple[str, ...] = ("logits",)
        if declared.inputs == "hidden":
            self._names = ("hidden", "weight", "bias") if problem.lm_head_bias else \
                ("hidden", "weight")

    @property
    def names(self) -> Tuple[str, ...]:
        return self._names

    def make(self, grad: bool, watch: bool, rounded: bool = False,
             rolled: bool = False) -> List[Input]:
        """Returns the inputs. Their memory is the arena's where nothing has to be cut off.

        ``rounded``: to bfloat16 first. ``rolled``: rows moved by one, another problem of the same
        shape.
        """
        inputs = []
        for name in self._names:
            tensor = self._cut(name, self._arena.get(name).detach()).to(self._device)
            if rounded:
                tensor = tensor.to(torch.bfloat16).to(tensor.dtype)
            if rolled:
                tensor = tensor.roll(1, 0)
            inputs.append(Input(name, tensor, self._declared.autograd, grad, watch))
        return inputs

    def _vocab_dimension(self, name: str) -> Optional[int]:
        if name == "logits":
            return 1
        if name == "bias":
            return 0
        if name == "weight":
            return 0 if self._problem.weight_layout == "vocab_hidden" else 1
        return None

    def _cut(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        dimension = self._vocab_dimension(name)
        return tensor if dimension is None else self._shard.cut(tensor, dimension)

    def write_gradients(self, gradients: Dict[str, torch.Tensor]) -> None:
        """Writes grad.NAME; 0 in columns of padding."""
        for name, gradient in gradients.items():
            out = self._arena.get("grad." + name)
            dimension = self._vocab_dimension(name)
            gradient = gradient.detach()
            if dimension is not None and out.shape[dimension] != self._shard.valid:
                out.zero_()
                out = out.narrow(dimension, 0, self._shard.valid)
                gradient = gradient.narrow(dimension, 0, self._shard.valid)
            out.copy_(gradient)

    def gradients_of(self, inputs: List[Input]) -> Dict[str, torch.Tensor]:
        """Returns the gradients that autograd left in the leaves."""
        found: Dict[str, torch.Tensor] = {}
        for one in inputs:
            gradient = one.leaf.grad
            if gradient is None:
                if one.leaf.numel() > 0:
                    raise BadInput(f"the result of {self._declared.name} does not depend on "
                                   f"{one.name}: its gradient is None after the backward")
                gradient = torch.zeros_like(one.leaf)
            found[one.name] = gradient
        return found

    def check_gradients(self, inputs: List[Input], returned: Any) -> Dict[str, torch.Tensor]:
        """Returns the gradients of the function's own backward, checked, by input."""
        gradients = returned if isinstance(returned, (tuple, list)) else (returned,)
        called = f"the backward of {self._declared.name}"
        if len(gradients) != len(inputs):
            raise BadInput(f"{called} returned {len(gradients)} gradients, wanted "
                           f"{len(inputs)}: of " + ", ".join(one.name for one in inputs))
        found: Dict[str, torch.Tensor] = {}
        for one, gradient in zip(inputs, gradients):
            if not isinstance(gradient, torch.Tensor):
                raise BadInput(f"{called} returned {type(gradient).__name__} for {one.name}, "
                               "wanted a tensor")
            if gradient.shape != one.leaf.shape or gradient.device != one.leaf.device or \
                    not gradient.is_floating_point():
                raise BadInput(
                    f"{called} returned {gradient.dtype} {list(gradient.shape)} on "
                    f"{gradient.device} for {one.name}, wanted floating point "
                    f"{list(one.leaf.shape)} on {one.leaf.device}")
            found[one.name] = gradient
        return found
