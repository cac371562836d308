# SPDX-License-Identifier: Apache-2.0
"""Tensors of collectives by the arguments of c10d's operators."""
from __future__ import annotations

from typing import Any, Callable, List, Sequence

import torch

from lossgrid.measure.calls import Call, Part

OnCall = Callable[[Call], Any]
Tensors = List[torch.Tensor]


def chunks_of(tensor: torch.Tensor, count: int) -> Tensors:
    """Returns the ``count`` equal parts of ``tensor`` along its first dimension."""
    flat = tensor.view(-1) if tensor.is_contiguous() else tensor
    return list(torch.tensor_split(flat, count))


def splits_of(tensor: torch.Tensor, sizes: Sequence[int], count: int) -> Tensors:
    if not sizes:
        return list(torch.tensor_split(tensor, count))
    return list(torch.split(tensor, list(sizes)))


def _flat(lists: Sequence[Sequence[torch.Tensor]]) -> Tensors:
    return [tensor for one in lists for tensor in one]


def payload_of(name: str, args: Sequence[Any]) -> Tensors:
    if "barrier" in name:
        return []
    if name in ("_allgather_base_", "_reduce_scatter_base_", "alltoall_base_"):
        return [args[1]]
    if name == "reduce_scatter_":
        return _flat(args[1])
    if name in ("allgather_", "allgather_coalesced_", "allgather_into_tensor_coalesced_",
                "reduce_scatter_tensor_coalesced_", "gather_", "alltoall_"):
        return list(args[1])
    return list(args[0])


def parts_of(name: str, args: Sequence[Any], size: int) -> List[Part]:
    if "barrier" in name:
        return []
    out, given = args[0], args[1]
    if name == "allgather_coalesced_":  # a list for each rank
        return [Part([one], list(many)) for one, many in zip(given, zip(*out))]
    if name in ("allgather_", "gather_"):
        outs = list(out) if out else [[] for _ in given]
        return [Part([one], list(many)) for one, many in zip(given, outs)]
    if name == "_allgather_base_":
        return [Part([given], chunks_of(out, size))]
    if name == "allgather_into_tensor_coalesced_":
        return [Part([one], chunks_of(many, size)) for one, many in zip(given, out)]
    if name in ("reduce_scatter_", "scatter_"):
        ins = list(given) if given else [[] for _ in out]
        return [Part(list(many), [one]) for one, many in zip(out, ins)]
    if name == "_reduce_scatter_base_":
        return [Part(chunks_of(given, size), [out])]
    if name == "reduce_scatter_tensor_coalesced_":
        return [Part(chunks_of(many, size), [one]) for one, many in zip(out, given)]
    if name == "alltoall_":
        return [Part(list(given), list(out))]
    if name == "alltoall_base_":
        return [Part(splits_of(given, args[4], size), splits_of(out, args[3], size))]
    return [Part([one], [one]) for one in out]
