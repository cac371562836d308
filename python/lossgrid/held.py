# SPDX-License-Identifier: Apache-2.0
"""Part of the gradient of an engine's weight that a rank holds after a train step."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, List, Mapping, Optional, Tuple

import torch

from lossgrid.errors import BadInput
from lossgrid.views import bits

Range = Tuple[int, int]  # elements [begin, end) of the flat weight


@dataclass(frozen=True)
class Held:
    """Gradient [V, V_t] of a rank; ``ranges`` are the ranges that it holds, None: the whole
    gradient."""

    gradient: torch.Tensor
    ranges: Optional[List[Range]]


def held_gradient(name: str, gradients: str, gradient: Any, value: Any, like: torch.Tensor) -> Held:
    """Returns the part of the gradient in ``model.weight.grad`` by the declaration ``gradients``.

    Args:
        name: name of the engine.
        gradients: "replicated", "zero" or "fsdp".
        gradient: the tensor that the engine left.
        value: value returned by the engine; with "zero" its "own" has the slice of the rank.
        like: a tensor [V, V_t] of the weight's shape.
    """
    if gradients == "fsdp":
        return _of_dtensor(name, gradient, like)
    if _is_dtensor(gradient):
        raise BadInput(f"{name} declares gradients={gradients!r} and left a DTensor in "
                       f"model.weight.grad ({_placed(gradient)}): gradients=\"fsdp\" would "
                       "declare it")
    if gradient is None and like.numel() > 0:
        raise BadInput(f"{name} left no gradient: model.weight.grad is None after a train step "
                       "(evaluate=False)")
    whole = torch.zeros_like(like) if gradient is None else gradient.detach()
    if gradients == "replicated":
        return Held(whole, None)
    begin, end = _own(name, value, like.numel())
    own = torch.zeros_like(like)
    own.view(-1)[begin:end] = whole.reshape(-1)[begin:end]
    return Held(own, [(begin, end)])


def unchanged(before: torch.Tensor, weight: torch.Tensor) -> bool:
    """True if ``weight``, or the local part of a DTensor, has the bits of ``before`` [V, V_t]."""
    if not _is_dtensor(weight):
        return torch.equal(bits(before), bits(weight))
    local = weight.detach().to_local()  # type: ignore[attr-defined]
    offsets = _offsets(weight, local)
    same = before[tuple(slice(at, at + n) for at, n in zip(offsets, local.shape))]
    return torch.equal(bits(same), bits(local))


def _is_dtensor(tensor: Any) -> bool:
    return tensor is not None and hasattr(tensor, "to_local") and hasattr(tensor, "placements")


def _placed(tensor: Any) -> str:
    return ", ".join(str(placement) for placement in tensor.placements)


def _own(name: str, value: Any, elements: int) -> Range:
    own = value.get("own") if isinstance(value, Mapping) else None
    if own is None:
        raise BadInput(f'{name} declares gradients="zero" and returned no "own": the slice '
                       "(begin, end) of model.weight.view(-1) whose gradient this rank holds")
    if not isinstance(own, (tuple, list)) or len(own) != 2 or \
            any(type(one) is not int for one in own) or not 0 <= own[0] <= own[1] <= elements:
        raise BadInput(f'{name}: "own" is {own!r}, wanted (begin, end) within the {elements} '
                       "elements of model.weight")
    return own[0], own[1]


def _offsets(tensor: Any, local: torch.Tensor) -> Tuple[int, ...]:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    shape, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh,
                                                           tensor.placements)
    if tuple(shape) != tuple(local.shape):
        raise BadInput(f"a DTensor placed by {_placed(tensor)} has {list(local.shape)} on this "
                       f"rank, not {list(shape)}")
    return tuple(int(offset) for offset in offsets)


def _of_dtensor(name: str, gradient: Any, like: torch.Tensor) -> Held:
    if gradient is None:
        raise BadInput(f"{name} left no gradient: model.weight.grad is None after a train step "
                       "(evaluate=False); without a gradient sync FSDP keeps it to itself")
    if not _is_dtensor(gradient):
        raise BadInput(f'{name} declares gradients="fsdp" and left a plain tensor in '
                       "model.weight.grad: fully_shard has not wrapped the model")
    if any(placement.is_partial() for placement in gradient.placements):
        raise BadInput(f"{name} left a DTensor in model.weight.grad that is not reduced: "
                       f"{_placed(gradient)}")
    local = gradient.detach().to_local()
    offsets = _offsets(gradient, local)
    own = torch.zeros_like(like)
    own[tuple(slice(at, at + n) for at, n in zip(offsets, local.shape))] = local
    return Held(own, _flat_ranges(offsets, tuple(local.shape), tuple(like.shape)))


def _flat_ranges(offsets: Tuple[int, ...], local: Tuple[int, ...],
                 shape: Tuple[int, ...]) -> List[Range]:
    """Returns the ranges of the flat tensor for its part at ``offsets``."""
    if 0 in local:
        return []
    if local[1:] == shape[1:]:
        row = int(torch.Size(shape[1:]).numel())
        return [(offsets[0] * row, (offsets[0] + local[0]) * row)]
    ranges = []
    for index in product(*(range(at, at + n) for at, n in zip(offsets[:-1], local[:-1]))):
        begin = 0
        for at, size in zip(index, shape[:-1]):
            begin = begin * size + at
        begin = begin * shape[-1] + offsets[-1]
        ranges.append((begin, begin + local[-1]))
    return ranges
