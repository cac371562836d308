# SPDX-License-Identifier: Apache-2.0
"""Tensors of collectives: the parts of each rank, and checks of their forms."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence

import torch

from lossgrid.shared_group.rendezvous import unseen

Tensor = torch.Tensor


def listed(tensors: Any) -> List[Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def counts_of(parts: Sequence[Tensor]) -> List[int]:
    """Returns the elements of equal parts together, or those of each."""
    counts = [part.numel() for part in parts]
    return [sum(counts)] if len(set(counts)) == 1 else counts


def require_form(op: str, given: Tensor, wanted: Tensor) -> None:
    """Raises RuntimeError unless ``wanted`` takes what ``given`` has."""
    if given.dtype != wanted.dtype or given.numel() != wanted.numel():
        raise RuntimeError(f"{op} of {given.numel()} {given.dtype} into {wanted.numel()} "
                           f"{wanted.dtype}")


def parts_of(whole: Tensor, part: Tensor, size: int, which: str) -> List[Tensor]:
    """Returns the part of ``whole`` for each of ``size`` ranks, of the form of ``part``."""
    if whole.numel() != size * part.numel():
        raise RuntimeError(f"{which} has {whole.numel()} elements, wanted {size} times "
                           f"{part.numel()}")
    with unseen():
        return list(whole.reshape((size,) + tuple(part.shape)).unbind(0))


def written_parts_of(whole: Tensor, part: Tensor, size: int, which: str) -> List[Tensor]:
    """Returns parts whose values are those of ``whole`` when they are written."""
    if not whole.is_contiguous():
        raise RuntimeError(f"{which} is not contiguous")
    return parts_of(whole, part, size, which)


def rows_for(tensor: Tensor, sizes: Optional[Sequence[int]], size: int, which: str) -> List[Tensor]:
    """Returns the rows of ``tensor`` for each of ``size`` ranks; equally many without ``sizes``."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % size:
            raise RuntimeError(f"all_to_all: {rows} rows of the {which} are not divisible by "
                               f"{size} ranks")
        sizes = [rows // size] * size
    if sum(sizes) != rows or len(sizes) != size:
        raise RuntimeError(f"all_to_all: sizes {list(sizes)} of the {which} are not {rows} rows "
                           f"for {size} ranks")
    with unseen():
        return list(torch.split(tensor, list(sizes)))
