# SPDX-License-Identifier: Apache-2.0
"""Facts about a trial that are known without its data."""
from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Dict, FrozenSet, Mapping, Tuple, Type, TypeVar

from lossgrid.errors import ProtocolError
from lossgrid.options import Option

_T = TypeVar("_T")


@dataclass(frozen=True)
class Grid:
    """Sizes of the axes of a grid. Rank = (dp_rank * cp + cp_rank) * tp + tp_rank."""

    tp: int = 1
    cp: int = 1
    dp: int = 1

    @property
    def size(self) -> int:
        return self.tp * self.cp * self.dp

    def __str__(self) -> str:
        return f"tp{self.tp}cp{self.cp}dp{self.dp}"


@dataclass(frozen=True)
class Cut:
    """The way in which a CP layout cuts rows (``cp_layout``), by default that of zigzag.

    Every sequence, or the pack, is cut in ``rounds`` times cp equal chunks, which go to the CP ranks
    one after the other. With ``turns`` every second round goes from the last rank to the first.
    """

    sequences: bool = True
    rounds: int = 2
    turns: bool = True


@dataclass(frozen=True)
class Denominators:
    """Counts over the global batch: all dp ranks and microbatches."""

    valid_tokens: int = 0
    valid_sequences: int = 0
    positive_tokens: int = 0
    trained_sequences: int = 0  # with a valid token; 0 where the objective does not need it
    all_sequences: int = 0  # masked ones too; 0 where the objective does not need it
    trained_groups: int = 0  # groups with a valid token; 0 where the objective has no groups
    all_groups: int = 0


@dataclass(frozen=True)
class Problem:
    """One problem on one grid, as ``supports`` and ``cost`` of a declaration are given it.

    ``dtype`` is "float64", "float32" or "bfloat16", ``teacher_dtype`` that of the teacher's logits
    (or of its hidden states and weight, ``teacher_hidden`` numbers a row, 0 where there are logits)
    or "" without a teacher, ``filtered_targets`` "drop" or "zero", or "" without a sampling mask,
    ``device`` "cpu" or "cuda", ``hidden`` 0 where the problem starts from logits, ``weight_layout``
    "vocab_hidden" ([V_t, H]) or "hidden_vocab" ([H, V_t]), ``lm_head_bias`` true where there is
    ``batch.bias``, ``cp_layout`` the name of the way in which rows go to CP ranks, which ``cp_cut``
    describes (:func:`lossgrid.layout.own_rows`). ``valid_tokens`` are trained on in this pack;
    ``denominators`` count the global batch.
    ``input_sum`` is the sum over the global batch of importance weights that
    ``rollout_is_batch_normalize`` divides by, or of pairs of which both have a score, else 0.
    ``objective`` holds every option of the objective and its name as "kind", ``objective_changed``
    the names of the options that do not have their defaults, ``options`` every option of the
    function with its value.

    ``head`` is "lm", or without a vocabulary (V = 1, on every TP rank) "value", where row t has the
    value of the state before token t + 1, or "score", where it has that of the tokens up to t.

    ``columns`` is V_t of the rank ``tp_rank``, ``cp_rank``. ``cost`` is called for each rank,
    ``supports`` and ``chunks`` once for all ranks, with the first one.
    """

    grid: Grid
    vocab: int
    hidden: int = 0
    dtype: str = "float32"
    logit_scale: float = 1.0
    logit_softcap: float = 0.0
    temperature: float = 1.0
    sequence_temperatures: bool = False
    teacher_dtype: str = ""
    teacher_topk: bool = False
    teacher_hidden: int = 0
    filtered_targets: str = ""
    weight_layout: str = "vocab_hidden"
    lm_head_bias: bool = False
    head: str = "lm"
    sequence_parallel: bool = False
    cp_layout: str = "zigzag"
    cp_cut: Cut = Cut()
    device: str = "cpu"
    sequences: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    valid_tokens: int = 0
    microbatch: int = 0
    microbatches: int = 1
    objective: Mapping[str, Any] = None  # type: ignore[assignment]
    objective_changed: Tuple[str, ...] = ()
    denominators: Denominators = Denominators()
    input_sum: float = 0.0
    tp_rank: int = 0
    cp_rank: int = 0
    columns: int = 0
    options: Mapping[str, Option] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """T_c: rows of the padded pack on every rank."""
        return self.padded_tokens // self.grid.cp

    @property
    def hidden_rows(self) -> int:
        """Rows of the hidden states on every rank: T_c, or T_c / tp with sequence parallelism."""
        return self.rows // self.grid.tp if self.sequence_parallel else self.rows


@lru_cache(maxsize=None)
def _names(cls: Type[_T]) -> FrozenSet[str]:
    return frozenset(field.name for field in fields(cls))  # type: ignore[arg-type]


def _known(cls: Type[_T], facts: Mapping[str, Any]) -> Dict[str, Any]:
    names = _names(cls)
    return {name: value for name, value in facts.items() if name in names}


def problem_from(message: Mapping[str, Any]) -> Problem:
    """Reads PROBLEM of the protocol; keys that are not known are ignored."""
    facts = _known(Problem, message)
    if "grid" not in facts or "vocab" not in facts:
        raise ProtocolError("a problem needs grid and vocab")
    facts["grid"] = Grid(**_known(Grid, facts["grid"]))
    facts["cp_cut"] = Cut(**_known(Cut, facts.get("cp_cut") or {}))
    facts["denominators"] = Denominators(**_known(Denominators, facts.get("denominators") or {}))
    facts["objective"] = dict(facts.get("objective") or {})
    facts["objective_changed"] = tuple(facts.get("objective_changed") or ())
    return Problem(**facts)
