# SPDX-License-Identifier: Apache-2.0
"""The whole padded pack, by row and by token."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import torch

from lossgrid.views import View, Views

if TYPE_CHECKING:
    from lossgrid.batch_data import BatchData

# Inputs of objectives about tokens.
TOKEN_ARRAYS = ("advantages", "prev_logprobs", "generation_logprobs",
                "reference_policy_logprobs", "teacher_logprobs", "returns", "old_values",
                "versions")


class _WholePack(Views):
    _by = ""  # "rows" or "tokens": names of arrays are rows.NAME or tokens.NAME

    def __init__(self, data: "BatchData", title: str) -> None:
        super().__init__(data.pause, title)
        self._data = data

    def _array(self, name: str) -> torch.Tensor:
        array = f"{self._by}.{name}"
        if not self._data.has(array):
            raise AttributeError(name)  # __getattr__ adds the reason
        return self._data.copy(array)

    def _absent(self, name: str) -> Optional[str]:
        return self._data.reason_absent(name) if name in TOKEN_ARRAYS else None

    @View
    def advantages(self) -> torch.Tensor:
        """[T_pad] float32."""
        return self._array("advantages")

    @View
    def prev_logprobs(self) -> torch.Tensor:
        """[T_pad] float32."""
        return self._array("prev_logprobs")

    @View
    def generation_logprobs(self) -> torch.Tensor:
        """[T_pad] float32."""
        return self._array("generation_logprobs")

    @View
    def reference_policy_logprobs(self) -> torch.Tensor:
        """[T_pad] float32."""
        return self._array("reference_policy_logprobs")

    @View
    def teacher_logprobs(self) -> torch.Tensor:
        """[T_pad] float32."""
        return self._array("teacher_logprobs")

    @View
    def returns(self) -> torch.Tensor:
        """[T_pad] float32."""
        return self._array("returns")

    @View
    def old_values(self) -> torch.Tensor:
        """[T_pad] float32."""
        return self._array("old_values")

    @View
    def versions(self) -> torch.Tensor:
        """[T_pad] float32 whole numbers."""
        return self._array("versions")


class PackRows(_WholePack):
    """Rows of the padded pack; arrays of the objective are about the token that a row predicts."""

    _by = "rows"

    @View
    def labels(self) -> torch.Tensor:
        """[T_pad] int64: id that the row predicts, 0 where it predicts nothing."""
        return self._data.targets().clamp(min=0)

    @View
    def predicts(self) -> torch.Tensor:
        """[T_pad] bool: the row predicts a token (its sequence goes on)."""
        return self._data.targets() >= 0

    @View
    def mask(self) -> torch.Tensor:
        """[T_pad] bool: the predicted token is trained on."""
        return self._data.mask("valid")

    @View
    def real(self) -> torch.Tensor:
        """[T_pad] bool: the row holds a token, not padding."""
        return self._data.copy("real").bool()

    @View
    def sequence(self) -> torch.Tensor:
        """[T_pad] int64: sequence that the row belongs to."""
        return self._data.copy("sequence")


class Tokens(_WholePack):
    """The same rows; arrays of the objective are about the token in the row, not shifted."""

    _by = "tokens"

    @View
    def ids(self) -> torch.Tensor:
        """[T_pad] int64: the token in the row, 0 in padding."""
        return self._data.ids()

    @View
    def mask(self) -> torch.Tensor:
        """[T_pad] bool: the token in the row is trained on (its sequence may be masked)."""
        return self._data.mask("token_mask")
