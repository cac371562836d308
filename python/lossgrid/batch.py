# SPDX-License-Identifier: Apache-2.0
"""Packed batch for user code."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from lossgrid.batch_data import BatchData
from lossgrid.batch_rows import TOKEN_ARRAYS, PackRows, Tokens
from lossgrid.groups import Axis
from lossgrid.join_rows import join_rows
from lossgrid.layout import Table
from lossgrid.problem import Denominators
from lossgrid.views import View, Views


class Batch(Views):
    """A packed batch on one rank.

    T_c rows of this rank, T_pad rows of the padded pack, B sequences, S the longest padded length.
    Row t of a sequence predicts its token t + 1. Tensors are on the device of the rank and are made
    when they are first read. They must not be changed.

    ``labels``, ``mask``, ``advantages``, ... are about the own rows. ``pack`` has them for all
    rows of the pack (``batch.pack.advantages``), ``tokens`` by token, not shifted
    (``batch.tokens.advantages``).
    """

    def __init__(self, data: BatchData) -> None:
        super().__init__(data.pause, "batch.")
        self._data = data
        self._pack = PackRows(data, "batch.pack.")
        self._tokens = Tokens(data, "batch.tokens.")
        self._bias: Optional[torch.Tensor] = None
        self._may_differ = True  # from what the views were made with

    # Ids and masks.

    @View
    def labels(self) -> torch.Tensor:
        """[T_c] int64: id that every own row predicts, shifted before the split over CP; 0 where a
        row predicts nothing."""
        return self._own(self._pack.labels)

    @View
    def labels_ignore(self) -> torch.Tensor:
        """[T_c] int64: ``labels``, -100 where nothing is predicted or the token is masked."""
        keep = self.mask & self.predicts
        return torch.where(keep, self.labels, torch.full_like(self.labels, -100))

    @View
    def labels_padded(self) -> torch.Tensor:
        """[T_pad] int64: ``labels`` of the whole pack."""
        return self._pack.labels.clone()

    @View
    def ids_padded(self) -> torch.Tensor:
        """[T_pad] int64: tokens of the whole pack, not shifted; 0 in padding."""
        return self._tokens.ids.clone()

    @View
    def mask(self) -> torch.Tensor:
        """[T_c] bool: true where the token that an own row predicts is trained on."""
        return self._own(self._pack.mask)

    @View
    def predicts(self) -> torch.Tensor:
        """[T_c] bool: true where an own row predicts a token."""
        return self._own(self._pack.predicts)

    @View
    def sample_mask(self) -> torch.Tensor:
        """[B] bool: true where the sequence is trained on."""
        return self._data.mask("sample_mask")

    @View
    def attention_mask(self) -> torch.Tensor:
        """[B, S] bool: true for a token, false for padding."""
        mask = Table(self._data.numbers("cu_seqlens_padded"), self._data.device)
        real = mask.spread(self._pack.real.to(torch.uint8)).bool()
        return torch.ones_like(real) if self._data.ignore_mask else real

    # Geometry.

    @View
    def cu_seqlens(self) -> torch.Tensor:
        """[B + 1] int32: offsets of the sequences without padding."""
        return self._data.copy("cu_seqlens").to(torch.int32)

    @View
    def cu_seqlens_padded(self) -> torch.Tensor:
        """[B + 1] int32: offsets of the sequences in the padded pack."""
        return self._data.copy("cu_seqlens_padded").to(torch.int32)

    @View
    def lengths(self) -> torch.Tensor:
        """[B] int64: true lengths."""
        return self._data.copy("lengths")

    @View
    def positions(self) -> torch.Tensor:
        """[T_c] int64: row of the padded pack of every own row."""
        return self._data.copy("positions")

    @View
    def sequence(self) -> torch.Tensor:
        """[T_c] int64: sequence that every own row belongs to."""
        return self._own(self._pack.sequence)

    @property
    def pack(self) -> PackRows:
        """The whole padded pack by row."""
        return self._pack

    @property
    def tokens(self) -> Tokens:
        """The whole padded pack by token."""
        return self._tokens

    # Inputs of the objective, about the token that an own row predicts.

    @View
    def advantages(self) -> torch.Tensor:
        """[T_c] float32: advantages of the predicted tokens."""
        return self._own(self._pack.advantages)

    @View
    def prev_logprobs(self) -> torch.Tensor:
        """[T_c] float32: log-probabilities of the predicted tokens by the previous policy."""
        return self._own(self._pack.prev_logprobs)

    @View
    def generation_logprobs(self) -> torch.Tensor:
        """[T_c] float32: log-probabilities of the predicted tokens by the policy that sampled."""
        return self._own(self._pack.generation_logprobs)

    @View
    def reference_policy_logprobs(self) -> torch.Tensor:
        """[T_c] float32: log-probabilities of the predicted tokens by the reference policy."""
        return self._own(self._pack.reference_policy_logprobs)

    @View
    def teacher_logprobs(self) -> torch.Tensor:
        """[T_c] float32: log-probabilities of the predicted tokens by the teacher."""
        return self._own(self._pack.teacher_logprobs)

    @View
    def returns(self) -> torch.Tensor:
        """[T_c] float32: returns of the states before the predicted tokens, that of the own row."""
        return self._own(self._pack.returns)

    @View
    def old_values(self) -> torch.Tensor:
        """[T_c] float32: values of these states before the step."""
        return self._own(self._pack.old_values)

    @View
    def versions(self) -> torch.Tensor:
        """[T_c] float32 whole numbers: versions of the policies that sampled the predicted tokens;
        below 0: none."""
        return self._own(self._pack.versions)

    @View
    def rewards(self) -> torch.Tensor:
        """[B] float32."""
        if not self._data.has("rewards"):
            raise AttributeError("rewards")
        return self._data.copy("rewards")

    @View
    def group_tokens(self) -> torch.Tensor:
        """[B] int64: valid tokens that the group of a sequence has in the global batch, for
        ``loss_agg_mode=prompt-mean``; of its pack for ``token-mean-legacy``."""
        if not self._data.has("group_tokens"):
            raise AttributeError("group_tokens")
        return self._data.copy("group_tokens")

    @View
    def teacher_logits(self) -> torch.Tensor:
        """[T_c, V_t] logits of the teacher, with the columns of ``logits``; -inf outside of the ids
        that it sends where ``teacher_topk`` is true."""
        if not self._data.has("teacher_logits"):
            raise AttributeError("teacher_logits")
        return self._data.columns("teacher_logits")

    @View
    def teacher_hidden(self) -> torch.Tensor:
        """[rows, N] hidden states of the teacher in the place of ``teacher_logits``, for the rows
        that hidden states of a model have on this rank: T_c, or T_c / tp with
        ``sequence_parallel``; 0 where a row predicts nothing."""
        if not self._data.has("teacher_hidden"):
            raise AttributeError("teacher_hidden")
        return self._data.copy("teacher_hidden")

    @View
    def teacher_weight(self) -> torch.Tensor:
        """[V_t, N] weight of the teacher, with a row for each column of ``logits``, 0 in padding:
        its logits are ``teacher_hidden`` times the transpose, divided by the temperatures."""
        if not self._data.has("teacher_weight"):
            raise AttributeError("teacher_weight")
        return self._data.rows_of_ids("teacher_weight")

    @property
    def teacher_topk(self) -> bool:
        """True if the teacher sends the logits of its top k ids alone."""
        return self._data.problem.teacher_topk

    @View
    def sampling_mask(self) -> torch.Tensor:
        """[T_c, V_t] bool, with the columns of ``logits``: true for the ids that the sampler could
        have drawn. Logits count as -inf elsewhere, after ``temperature``."""
        if not self._data.has("sampling_mask"):
            raise AttributeError("sampling_mask")
        return self._data.columns("sampling_mask").to(torch.bool)

    @property
    def filtered_targets(self) -> str:
        """"zero": targets outside of ``sampling_mask`` have the log-probability 0, without a
        gradient; "drop": none of them is trained on; "" without a mask."""
        return self._data.problem.filtered_targets

    @property
    def objective(self) -> Dict[str, Any]:
        """Every option of the objective with its value, and its name as "kind"."""
        return dict(self._data.problem.objective)

    @property
    def denominators(self) -> Denominators:
        """Counts over the global batch: all dp ranks and microbatches."""
        return self._data.problem.denominators

    # Vocabulary.

    @property
    def head(self) -> str:
        """"lm"; "value" or "score" without a vocabulary: one number a row, on every TP rank. Rows
        of scores are about their own tokens, and ``mask`` has the last one of a sequence."""
        return self._data.problem.head

    @property
    def vocab_size(self) -> int:
        """V, without padding."""
        return self._data.problem.vocab

    @View
    def vocab_start(self) -> int:
        """First id whose column this rank holds."""
        return self._shard()[0]

    @View
    def vocab_end(self) -> int:
        """One more than the last id whose column this rank holds (padding included where
        vocab_split keeps it)."""
        return self._shard()[1]

    @property
    def logit_scale(self) -> float:
        """Factor of the logits, before a soft-cap."""
        return self._data.problem.logit_scale

    @property
    def logit_softcap(self) -> float:
        """c of c tanh(logits / c); 0: none."""
        return self._data.problem.logit_softcap

    @property
    def temperature(self) -> float:
        """Divisor of the logits, after a soft-cap."""
        return self._data.problem.temperature

    @View
    def temperatures(self) -> torch.Tensor:
        """[B] float32: divisors of the rows of a sequence beside ``temperature``; ones where the
        case has none."""
        if self._data.has("temperatures"):
            return self._data.copy("temperatures")
        return torch.ones(self._data.problem.sequences, device=self._data.device)

    @property
    def weight_layout(self) -> str:
        """"vocab_hidden": weight is [V_t, H]; "hidden_vocab": [H, V_t]."""
        return self._data.problem.weight_layout

    @property
    def bias(self) -> Optional[torch.Tensor]:
        """[V_t] bias of the LM head, in the dtype of the weight, which is added to the product of
        hidden states and weight: an input like these, with a gradient. None where there is none."""
        return self._bias

    @property
    def sequence_parallel(self) -> bool:
        """True if hidden states are split by rows over TP."""
        return self._data.problem.sequence_parallel

    # Ranks.

    @property
    def tp(self) -> Axis:
        return self._data.groups.tp

    @property
    def cp(self) -> Axis:
        return self._data.groups.cp

    @property
    def dp(self) -> Axis:
        return self._data.groups.dp

    @property
    def world(self) -> Axis:
        return self._data.groups.world

    @property
    def microbatch(self) -> int:
        """Index of this pack among those of the dp rank, from 0."""
        return self._data.problem.microbatch

    @property
    def microbatches(self) -> int:
        """Packs of each dp rank."""
        return self._data.problem.microbatches

    # Maps between layouts; all are differentiable.

    def rows_to_padded(self, x: torch.Tensor) -> torch.Tensor:
        """Brings [T_pad, ...] to [B, S, ...], with zeros behind the end of a sequence."""
        return self._table.spread(x)

    def padded_to_rows(self, x: torch.Tensor) -> torch.Tensor:
        """Brings [B, S, ...] to [T_pad, ...]."""
        return self._table.collect(x)

    def split_cp(self, x: torch.Tensor) -> torch.Tensor:
        """Brings [T_pad, ...] to [T_c, ...], the rows of this rank."""
        return x.index_select(0, self.positions)

    def join_cp(self, x: torch.Tensor) -> torch.Tensor:
        """Brings [T_c, ...] to [T_pad, ...] on every CP rank, by one all-gather over CP.

        Its backward takes the part of this rank (gradient="own_part").
        """
        return join_rows(x, self._rows_by_cp_rank, self.cp)

    @View
    def _table(self) -> Table:
        return Table(self._data.numbers("cu_seqlens_padded"), self._data.device)

    @View
    def _rows_by_cp_rank(self) -> List[torch.Tensor]:
        return [self._data.rows_of(rank) for rank in range(self.cp.size)]

    def _own(self, pack: torch.Tensor) -> torch.Tensor:
        return pack.index_select(0, self.positions)

    def _shard(self) -> Tuple[int, int]:
        return self._data.shard.range

    def _absent(self, name: str) -> Optional[str]:
        if name == "sampling_mask":
            return "this case has no sampling mask"
        if name in ("teacher_logits", "teacher_hidden", "teacher_weight") and \
                self._data.problem.teacher_dtype:
            return "this case has a teacher of another kind: problem.teacher_hidden"
        if name in TOKEN_ARRAYS or name in ("rewards", "group_tokens", "teacher_logits",
                                            "teacher_hidden", "teacher_weight"):
            return self._data.reason_absent(name)
        return None

    def _changed(self) -> List[str]:
        names = super()._changed() + self._pack._changed() + self._tokens._changed()
        self._may_differ = bool(names)
        return names

    def _restore(self) -> None:
        """Restores views that user code has changed, before it runs again."""
        if self._may_differ:
            super()._restore()
            self._pack._restore()
            self._tokens._restore()
        self._may_differ = True
