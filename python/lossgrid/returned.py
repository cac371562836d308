# SPDX-License-Identifier: Apache-2.0
"""Returned values of a function: checked against its declaration, brought to rows and back."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch

from lossgrid.arena import Arena
from lossgrid.batch import Batch
from lossgrid.declaration import Declaration
from lossgrid.errors import BadInput

Backward = Callable[..., Any]

_ZERO = torch.zeros(())

_ROWS = {
    "shard": 'one number for each row of this rank (rows="shard")',
    "pack": 'one number for each row of the padded pack (rows="pack")',
    "padded": 'one row a sequence, column j predicts token j + 1 (rows="padded")',
}


def by_name(declared: Declaration, value: Any) -> Dict[str, Any]:
    """Returns the returned values by the declared names."""
    names = declared.returns
    wanted = names[0] if len(names) == 1 else "(" + ", ".join(names) + ")"
    if isinstance(value, Mapping):
        if set(value) != set(names):
            got = ", ".join(str(name) for name in value) or "nothing"
            raise BadInput(f"{declared.name} returned a dict of {got}, wanted {wanted}")
        return {name: value[name] for name in names}
    if len(names) == 1:
        return {names[0]: value}
    if not isinstance(value, (tuple, list)) or len(value) != len(names):
        got = f"{len(value)} values" if isinstance(value, (tuple, list)) else \
            f"one {type(value).__name__}"
        raise BadInput(f"{declared.name} returned {got}, wanted {wanted}: a tuple in this order "
                       "or a dict by these names")
    return dict(zip(names, value))


def split_own(declared: Declaration, value: Any) -> Tuple[Any, Backward]:
    """Splits (outputs, backward) of a function that declares autograd="own"."""
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not callable(value[1]):
        raise BadInput(f'{declared.name} declares autograd="own" and has to return '
                       f"(outputs, backward), a function second; it returned {_kind(value)}")
    return value[0], value[1]


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(type(one).__name__ for one in value) + ")"
    return f"{type(value).__name__}"


class Returned:
    """The checked outputs of one forward."""

    def __init__(self, declared: Declaration, batch: Batch, device: torch.device,
                 values: Dict[str, Any], graph: bool) -> None:
        self._declared = declared
        self._batch = batch
        self._tensors: Dict[str, torch.Tensor] = {}
        self._without_graph: List[str] = []
        for name, value in values.items():
            self._check(name, value, device, graph)
            self._tensors[name] = value
        self._values = self._tensors

    @property
    def names(self) -> List[str]:
        return list(self._tensors)

    @property
    def without_graph(self) -> List[str]:
        """Outputs that were requested with a graph and have no graph, so that their gradient is
        unknown."""
        return list(self._without_graph)

    def tensors(self) -> List[torch.Tensor]:
        return list(self._tensors.values())

    def loss(self) -> Optional[float]:
        if "loss" not in self._values:
            return None
        return float(self._values["loss"].detach().double().item())

    def show_values_of(self, other: "Returned") -> None:
        """Reports the values of ``other`` in place of these; gradients stay."""
        self._values = other._tensors

    def _wanted(self, name: str) -> Tuple[List[int], str]:
        if name == "loss":
            return [], "a scalar"
        rows = self._declared.rows
        if rows == "shard":
            return [self._batch.positions.shape[0]], _ROWS[rows]
        if rows == "pack":
            return [self._batch.pack.predicts.shape[0]], _ROWS[rows]
        table = self._batch.rows_to_padded(self._batch.pack.predicts)
        return [table.shape[0], max(table.shape[1] - 1, 0)], _ROWS[rows]

    def _check(self, name: str, value: Any, device: torch.device, graph: bool) -> None:
        mine = self._declared.name
        wanted, meaning = self._wanted(name)
        if not isinstance(value, torch.Tensor):
            raise BadInput(f"{mine} returned {type(value).__name__} for {name}, wanted a tensor "
                           f"{wanted}: {meaning}")
        if list(value.shape) not in (wanted, [1] + wanted):
            raise BadInput(f"{mine} returned {list(value.shape)} for {name}, wanted {wanted}: "
                           f"{meaning}")
        if not value.is_floating_point():
            raise BadInput(f"{mine} returned {value.dtype} for {name}, wanted floating point")
        if value.device != device:
            raise BadInput(f"{mine} returned {name} on {value.device}, wanted it on {device}, "
                           "the device of this rank")
        if not graph or value.requires_grad:
            return
        if name == "entropy":  # may be a statistic on which the loss does not depend
            self._without_graph.append(name)
        else:
            raise BadInput(f"{mine} returned {name} without a graph (requires_grad is False): it "
                           "has to be differentiable; was it detached, or made under no_grad? "
                           'autograd="own" lets the function return gradients itself')

    def rows(self, name: str) -> torch.Tensor:
        """Returns output ``name`` by row, float32; log-probabilities for "nll"; 0 where a row
        predicts nothing."""
        value = self._values[name].detach().to(torch.float32)
        if name == "nll":
            value = -value
        wanted, _ = self._wanted(name)
        if list(value.shape) != wanted:
            value = value.reshape(wanted)
        if self._declared.rows == "shard":
            predicts = self._batch.predicts
        else:
            predicts = self._batch.pack.predicts
        if self._declared.rows == "padded":
            value = self._batch.padded_to_rows(self._whole_width(value))
        return torch.where(predicts, value, _ZERO if value.device == _ZERO.device else
                           torch.zeros_like(value))

    def _whole_width(self, table: torch.Tensor) -> torch.Tensor:
        width = self._batch.rows_to_padded(self._batch.pack.predicts).shape[1]
        missing = table.new_zeros([table.shape[0], width - table.shape[1]])
        return torch.cat([table, missing], 1)

    def upstream(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        """Converts the gradient by row of output ``name`` to the returned shape."""
        if name == "nll":
            rows = -rows
        if self._declared.rows == "padded":
            rows = self._batch.rows_to_padded(rows)[:, :-1]
        value = self._tensors[name]
        return rows.to(value.dtype).reshape(value.shape).contiguous()


def output_arrays(returned: Returned) -> Dict[str, str]:
    """Returns the name in the arena of every per token output."""
    return {name: "logprobs" if name == "nll" else name for name in returned.names
            if name != "loss"}


def write_outputs(returned: Returned, arena: Arena) -> None:
    for name, array in output_arrays(returned).items():
        arena.get("out." + array).copy_(returned.rows(name))
