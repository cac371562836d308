# SPDX-License-Identifier: Apache-2.0
"""Decorators that declare a function as an implementation, with its conventions by name."""
from __future__ import annotations

import inspect
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from lossgrid.conventions import RETURNS, WORDS, require_list
from lossgrid.cost import Model
from lossgrid.errors import BadInput
from lossgrid.options import Option, Options, options_of
from lossgrid.problem import Problem
from lossgrid.provenance import details_of
from lossgrid.scale import scale_text

Function = Callable[..., Any]
Supports = Callable[[Problem], Union[None, bool, str]]
Chunks = Union[int, Callable[[Problem], int]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True)
class Declaration:
    """One decorated function and the conventions that it declares."""

    function: Function
    name: str
    kind: str  # "implementation" or "engine"
    file: str
    line: int
    options: Options
    summary: str = ""
    inputs: str = "logits"
    returns: Tuple[str, ...] = ("logprobs",)
    rows: str = "shard"
    gradient: str = "own_part"
    gradients: str = "replicated"  # for an engine only
    scale: str = "1"
    autograd: str = "leaf"
    vocab_split: str = "ceil"
    overwrites: Tuple[str, ...] = ()
    rounds: Tuple[str, ...] = ()
    takes: Tuple[str, ...] = ()
    chunks: Chunks = 1
    sequence_multiple: int = 1
    pack_multiple: int = 1
    supports: Optional[Supports] = None
    cost: Optional[Model] = None
    megatron: bool = False

    def message(self) -> Dict[str, Any]:
        """Returns DECLARATION of the protocol."""
        plain = ("name", "kind", "summary", "file", "inputs", "rows", "gradient", "gradients",
                 "scale", "autograd", "vocab_split", "sequence_multiple", "pack_multiple", "megatron")
        message: Dict[str, Any] = {name: getattr(self, name) for name in plain}
        message["returns"] = list(self.returns)
        message["overwrites"] = list(self.overwrites)
        message["rounds"] = list(self.rounds)
        message["takes"] = list(self.takes)
        message["has_chunks"] = self.chunks != 1
        message["has_supports"] = self.supports is not None
        message["has_cost"] = self.cost is not None
        message["details"] = details_of(self.file)
        message.update(self.options.message())
        return message

    def chunks_of(self, problem: Problem) -> int:
        """Returns the number of chunks of rows for the gradient of the weight."""
        if not callable(self.chunks):
            return self.chunks
        return _multiple(f"chunks of {self.name}", "returned", self.chunks(problem))

    def with_options(self, given: Mapping[str, Any]) -> Dict[str, Option]:
        """Returns the options that a request sets, converted to the types of their defaults."""
        return self.options.given(self.name, given)


_registered: List[Declaration] = []


def registered() -> Tuple[Declaration, ...]:
    """Returns the declarations of the files loaded so far, in order."""
    return tuple(_registered)


def _register(new: Declaration) -> None:
    for i, old in enumerate(_registered):
        if old.name == new.name:
            if (old.file, old.line) == (new.file, new.line):
                _registered[i] = new  # the same file, imported under another name
                return
            raise BadInput(f"two implementations are called {new.name!r}: {old.file}:{old.line} "
                           f"and {new.file}:{new.line}")
    _registered.append(new)


def _one_of(name: str, argument: str, value: Any) -> str:
    allowed = WORDS[argument]
    if value not in allowed:
        raise BadInput(f"{name}: {argument}={value!r} is not one of " +
                       ", ".join(repr(word) for word in allowed))
    return str(value)


def _returns(name: str, value: Any) -> Tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (tuple, list)) or tuple(names) not in RETURNS:
        allowed = ", ".join(repr(one[0] if len(one) == 1 else one) for one in RETURNS)
        raise BadInput(f"{name}: returns={value!r} is not one of {allowed}")
    return tuple(names)


def _multiple(name: str, argument: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 65536:
        raise BadInput(f"{name}: {argument}={value!r} is not a whole number from 1 to 65536")
    return value


def _chunks(name: str, value: Any, inputs: str) -> Chunks:
    if not callable(value):
        _multiple(name, "chunks", value)
    if value != 1 and inputs != "hidden":
        raise BadInput(f"{name}: chunks has no meaning with inputs={inputs!r}")
    return value  # type: ignore[no-any-return]


def _overwrites(name: str, value: Any, inputs: str) -> Tuple[str, ...]:
    allowed = ("logits",) if inputs == "logits" else ("hidden", "weight")
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (tuple, list)) or any(one not in allowed for one in names):
        raise BadInput(f"{name}: overwrites={value!r} names something else than the inputs: " +
                       ", ".join(repr(word) for word in allowed))
    return tuple(names)


def _declare(function: Function, kind: str, positional: Sequence[str], name: Optional[str],
             **conventions: Any) -> Function:
    if not callable(function):
        raise BadInput(f"@lossgrid.{kind} decorates a function, not {function!r}")
    name = name if name is not None else getattr(function, "__name__", "")
    if not _NAME.match(name):
        raise BadInput(f"{name!r} is no name of an implementation: letters, digits and _ only; "
                       f"@lossgrid.{kind}(name=...)")
    for argument in ("supports", "cost"):
        asked = conventions.get(argument)
        if asked is not None and not callable(asked):
            raise BadInput(f"{name}: {argument}={asked!r} is no function of the problem")
    if not isinstance(conventions["megatron"], bool):
        raise BadInput(f"{name}: megatron={conventions['megatron']!r} is not True or False")
    plain = inspect.unwrap(function)
    code = getattr(plain, "__code__", None)
    text = (inspect.getdoc(function) or "").strip().splitlines()
    _register(Declaration(
        function=function, name=name, kind=kind,
        file=os.path.abspath(code.co_filename) if code else "",
        line=code.co_firstlineno if code else 0,
        summary=text[0] if text else "",
        options=options_of(name, function, positional), **conventions))
    return function


def implementation(
        function: Optional[Function] = None, *, name: Optional[str] = None,
        inputs: str = "logits", returns: Union[str, Sequence[str]] = "logprobs",
        rows: str = "shard", gradient: str = "own_part", scale: str = "1",
        autograd: str = "leaf", vocab_split: str = "ceil",
        overwrites: Union[str, Sequence[str]] = (), rounds: Union[str, Sequence[str]] = (),
        takes: Union[str, Sequence[str]] = (),
        chunks: Chunks = 1, sequence_multiple: int = 1, pack_multiple: int = 1,
        supports: Optional[Supports] = None, cost: Optional[Model] = None,
        megatron: bool = False) -> Any:
    """Declares ``function(logits, batch)`` or ``function(hidden, weight, batch)``.

    The function is called on every rank with its shard and a :class:`lossgrid.Batch`. Keyword-only
    parameters with defaults are options (``--impl mine:chunk=128``). An option that is annotated
    with its values, ``chunk: typing.Literal[1, 7, 64] = 64``, is run with each value.

    Args:
        name: its name for ``--impl``; the name of the function by default.
        inputs: "logits" ([T_c, V_t] of this rank) or "hidden" (hidden [T_c, H] and weight
            [V_t, H] or [H, V_t]).
        returns: "logprobs", "nll", ("logprobs", "entropy"), ("nll", "entropy"), or "loss" (a
            scalar: the loss of the whole pack on every CP rank, of which lossgrid takes the
            gradient for the own inputs). More than one value come as a tuple in
            this order, or as a dict by these names. Per token values are float32 or wider,
            differentiable; lossgrid's objective makes loss and gradient of them.
        rows: rows of each per token tensor. "shard": [T_c], the rows of this rank. "pack":
            [T_pad], the whole padded pack on every rank, after the function's own gather over CP.
            "padded": [B, S - 1] with S the longest padded length; column j predicts token j + 1.
        gradient: gradient in the backward of that gather: "own_part" takes the part of this rank,
            "summed_over_cp" adds up the gradients of all CP ranks.
        scale: factor of the loss before the backward, as the framework applies it: "1", or a
            product of "dp", "cp", "n_mb" and their inverses such as "dp*n_mb" or "1/dp".
        autograd: "leaf": inputs are leaves. "nonleaf": they share the memory of leaves, and may be
            changed in place. "own": inputs need no gradient, and the function returns
            ``(outputs, backward)``; ``backward`` is given the upstream gradient of each output and
            returns that of the logits, or (d hidden, d weight), with a bias (..., d bias).
        vocab_split: "ceil": shards of ceil(V / tp) columns, less (even none) on the last ranks.
            "equal", "padded:-inf": equal shards, columns beyond V hold -inf; "padded:-1e30": they
            hold -1e30.
        overwrites: inputs that the function may change.
        rounds: tensors that the function rounds by design to the dtype of its inputs, bfloat16:
            "loss", and from hidden states "logits" that it makes, "grad_logits" before they are
            multiplied by hidden states and weight, and "grad_weight", which is about d bias, too.
            Autograd does all of this with a product of bfloat16. Bounds are wider by the rounding
            of these tensors.
            "log_sum_exp": log-probabilities or their gradient come of logits minus a log-sum-exp
            in float32, which rounds in proportion to the logits and not to their distances.
            "temperature", "quotient": logits in bfloat16 are divided by a temperature in bfloat16,
            and the quotients are bfloat16.
        takes: words of what the function makes itself, of which it is given no case otherwise:
            "terms", "transforms", "teacher", ... The table in docs/check_your_own_loss.md has their
            meaning, the attributes of ``batch`` that they are made from, and what each needs beside
            it; ``conventions.json`` is its source.
        chunks: number of chunks of rows, one after the other, over which loss and gradient of the
            weight are added up; a number, or a function of a :class:`lossgrid.Problem`. Each of
            these additions may round the tensors of ``rounds``.
        sequence_multiple: padded lengths of sequences are multiples of this, also where case and
            grid need less padding.
        pack_multiple: the same for the length of the padded pack (all CP ranks together).
        supports: function of a :class:`lossgrid.Problem`; returns the reason for which it is
            skipped, or "" (None, True).
        cost: function of a :class:`lossgrid.Problem` of one rank; returns a
            :class:`lossgrid.Cost`, to which every trial is held.
        megatron: initialise Megatron-core's parallel_state with the same ranks first.
    """
    def decorate(f: Function) -> Function:
        called = name if name is not None else getattr(f, "__name__", "")
        positional = ("logits", "batch") if _one_of(called, "inputs", inputs) == "logits" else \
            ("hidden", "weight", "batch")
        returned = _returns(called, returns)
        if returned == ("loss",) and rows != "shard":
            raise BadInput(f"{called}: rows={rows!r} has no meaning with returns='loss'")
        if inputs == "hidden" and _one_of(called, "vocab_split", vocab_split) != "ceil":
            raise BadInput(f"{called}: vocab_split={vocab_split!r} has no meaning with "
                           "inputs='hidden'")
        return _declare(
            f, "implementation", positional, name, inputs=inputs, returns=returned,
            rows=_one_of(called, "rows", rows), gradient=_one_of(called, "gradient", gradient),
            scale=scale_text(called, scale), autograd=_one_of(called, "autograd", autograd),
            vocab_split=_one_of(called, "vocab_split", vocab_split),
            overwrites=_overwrites(called, overwrites, inputs),
            rounds=require_list("rounds", called, rounds, inputs, returned),
            takes=require_list("takes", called, takes, inputs, returned),
            chunks=_chunks(called, chunks, inputs),
            sequence_multiple=_multiple(called, "sequence_multiple", sequence_multiple),
            pack_multiple=_multiple(called, "pack_multiple", pack_multiple),
            supports=supports, cost=cost, megatron=megatron)

    return decorate if function is None else decorate(function)


def engine(function: Optional[Function] = None, *, name: Optional[str] = None, scale: str = "1",
           gradients: str = "replicated", sequence_multiple: int = 1, pack_multiple: int = 1,
           supports: Optional[Supports] = None, cost: Optional[Model] = None,
           megatron: bool = False) -> Any:
    """Declares ``function(model, batch, evaluate)``: a whole train step or evaluation.

    ``model`` is a torch.nn.Module from ids [...] (int64) to logits [..., V_t] of this rank: a
    bigram, ``logits = weight[ids]``. Its only parameter ``weight`` is [V, V_t], the columns of
    this rank. ``batch`` (:class:`lossgrid.Batch`) is the whole batch of this dp rank. The function
    returns the loss of the global batch (a number, a scalar tensor, or a dict with "loss" and
    metrics) and, where ``evaluate`` is false, leaves its gradient in ``model.weight.grad``, added
    up over dp and cp by itself. Loss, metrics and gradient are compared over the ranks that have
    them. Arguments: see :func:`implementation`, and

    Args:
        gradients: part of the gradient that a rank has after the step. "replicated": all of it, as
            DDP leaves it. "zero": a slice, after a reduce-scatter (ZeRO, Megatron's distributed
            optimizer); the returned dict names it, ``"own": (begin, end)`` of
            ``model.weight.view(-1)``, and the rest of ``model.weight.grad`` is not looked at.
            "fsdp": the shard of a DTensor, which ``fully_shard`` makes of the parameter. Slices
            have to cover the weight, each element on the same number of ranks.
    """
    def decorate(f: Function) -> Function:
        called = name if name is not None else getattr(f, "__name__", "")
        return _declare(
            f, "engine", ("model", "batch", "evaluate"), name, inputs="hidden",
            returns=("loss",), gradients=_one_of(called, "gradients", gradients),
            scale=scale_text(called, scale),
            sequence_multiple=_multiple(called, "sequence_multiple", sequence_multiple),
            pack_multiple=_multiple(called, "pack_multiple", pack_multiple),
            supports=supports, cost=cost, megatron=megatron)

    return decorate if function is None else decorate(function)
