# SPDX-License-Identifier: Apache-2.0
"""Element-wise reductions in the order of the ranks and in the element type.

Bits of a result depend neither on timing nor on the rank that reduces, and those of sums, max and
min are those of harness/comm/reduction.h: max and min propagate a NaN, and of equal values keep the
first.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Sequence

import torch
import torch.distributed as dist

Tensor = torch.Tensor

_SIGNED = {getattr(torch, "uint16", None): torch.int16, getattr(torch, "uint32", None): torch.int32,
           getattr(torch, "uint64", None): torch.int64}

_NAMES: Dict[Any, str] = {getattr(dist.ReduceOp, name): name.lower() for name in
                          ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG")
                          if hasattr(dist.ReduceOp, name)}


def word(op: Any) -> str:
    """Returns the word for a ReduceOp."""
    found = _NAMES.get(getattr(op, "op", op))
    if found is None:
        raise RuntimeError(f"the reduction {op} is not one of {', '.join(_NAMES.values())}")
    return found


def _picked(keeps_first: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Returns a function that keeps the first of two floats unless the second is beyond it or a
    NaN; a NaN that is first stays."""
    def pick(first: Tensor, second: Tensor, *, out: Tensor) -> Tensor:
        kept = keeps_first(first, second).logical_or_(first != first)
        return torch.where(kept, first, second, out=out)
    return pick


_larger = _picked(torch.ge)
_smaller = _picked(torch.le)

_PAIRS: Dict[str, Callable[..., Tensor]] = {
    "sum": torch.add, "avg": torch.add, "product": torch.mul, "max": torch.maximum,
    "min": torch.minimum, "band": torch.bitwise_and, "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor}
_OF_BOOLS = {"sum": torch.logical_or, "product": torch.logical_and}
_OF_FLOATS = {"max": _larger, "min": _smaller}


_EXTREMES = {"max": torch.max, "min": torch.min}  # over a dimension: the first of equals, and NaN


def _pair(reduce: str, dtype: torch.dtype) -> Callable[..., Tensor]:
    if dtype.is_floating_point:
        if reduce in ("band", "bor", "bxor"):
            raise RuntimeError(f"{reduce} takes integers, not {dtype}")
        return _OF_FLOATS.get(reduce) or _PAIRS[reduce]
    if reduce == "avg":
        raise RuntimeError(f"avg takes floating-point numbers, not {dtype}")
    if dtype == torch.bool:
        return _OF_BOOLS.get(reduce) or _PAIRS[reduce]
    return _PAIRS[reduce]


def require_reducible(reduce: str, dtype: torch.dtype) -> None:
    """Raises RuntimeError unless ``reduce`` takes ``dtype``."""
    _pair(reduce, dtype)
    if reduce in ("max", "min") and dtype in _SIGNED:
        raise RuntimeError(f"{reduce} does not take {dtype}")


def reduce_in_order(values: Sequence[Tensor], reduce: str, out: Tensor) -> None:
    """Writes the reduction of ``values``, first to last, to ``out``, which overlaps none."""
    if len(values) == 1:
        out.copy_(values[0])
        return
    signed = _SIGNED.get(out.dtype)
    if signed is not None:  # sums and bits are those of signed numbers
        values, out = [value.view(signed) for value in values], out.view(signed)
    if len(values) > 2 and reduce in _EXTREMES and out.dtype.is_floating_point:
        places = torch.empty(out.shape, dtype=torch.int64, device="cpu")
        _EXTREMES[reduce](torch.stack(list(values)), 0, out=(out, places))
        return
    pair = _pair(reduce, out.dtype)
    pair(values[0], values[1], out=out)
    for value in values[2:]:
        pair(out, value, out=out)
    if reduce == "avg":
        out.div_(len(values))


def reduce_into(output: Tensor, values: Sequence[Tensor], reduce: str) -> None:
    """Writes the reduction of ``values``, which lie on the processor, to a tensor of any device."""
    if output.numel() == 0:
        return
    if output.is_cuda:
        reduced = torch.empty(output.shape, dtype=output.dtype, pin_memory=True, device="cpu")
        reduce_in_order(values, reduce, reduced)
        output.copy_(reduced)
    else:
        reduce_in_order(values, reduce, output)
