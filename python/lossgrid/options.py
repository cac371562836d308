# SPDX-License-Identifier: Apache-2.0
"""Options of a function: its keyword-only parameters, and the values that their types offer."""
from __future__ import annotations

import inspect
import re
import typing
from typing import Any, Callable, Dict, Mapping, Sequence, Tuple, Union

from lossgrid.errors import BadInput

Option = Union[bool, int, float, str]
_TYPES = (bool, int, float, str)
_UNWRITABLE = re.compile(r"[\s,:]|^$")  # texts that --impl name:option=value cannot carry


class Options:
    """The options of one function.

    ``defaults`` has the default of each. ``offers`` has, of those that are annotated with
    ``typing.Literal``, the values that they take, the default first.
    """

    def __init__(self, defaults: Mapping[str, Option],
                 offers: Mapping[str, Tuple[Option, ...]]) -> None:
        self.defaults = defaults
        self.offers = offers

    def message(self) -> Dict[str, Any]:
        """Returns "options" and "offers" of DECLARATION of the protocol."""
        return {"options": {name: type(value).__name__ for name, value in self.defaults.items()},
                "offers": {name: list(values) for name, values in self.offers.items()}}

    def given(self, owner: str, values: Mapping[str, Any]) -> Dict[str, Option]:
        """Returns the options that a request to ``owner`` sets, in the types of their defaults."""
        return {name: self._value(owner, name, value) for name, value in values.items()}

    def _value(self, owner: str, name: str, value: Any) -> Option:
        if name not in self.defaults:
            known = ", ".join(self.defaults) or "none"
            raise BadInput(f"{owner} has no option {name!r}; it has: {known}")
        wanted = type(self.defaults[name])
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted:
            raise BadInput(f"option {name} of {owner} wants {wanted.__name__}, got {value!r}")
        if name in self.offers and value not in self.offers[name]:
            raise BadInput(f"option {name} of {owner} offers {_listed(self.offers[name])}, "
                           f"got {value!r}")
        result: Option = value
        return result


def _listed(values: Sequence[Option]) -> str:
    return ", ".join(repr(value) for value in values)


def _annotation(owner: str, function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Returns the annotation of ``parameter``, even if all annotations are texts."""
    annotation = parameter.annotation
    if not isinstance(annotation, str) or "Literal" not in annotation:
        return annotation
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return eval(annotation, names)  # as typing.get_type_hints does with all of them
    except Exception as error:
        raise BadInput(f"{owner}: the annotation {annotation!r} of option {parameter.name} cannot "
                       f"be read: {type(error).__name__}: {error}") from error


def _offered(owner: str, function: Callable[..., Any],
             parameter: inspect.Parameter) -> Tuple[Option, ...]:
    """Returns the values that the annotation lists, the default first; empty if it lists no
    values."""
    annotation = _annotation(owner, function, parameter)
    if getattr(typing.get_origin(annotation), "_name", "") != "Literal":
        return ()
    default = parameter.default
    values = typing.get_args(annotation)
    where = f"{owner}: option {parameter.name}"
    for value in values:
        if type(value) is not type(default):
            raise BadInput(f"{where} offers {value!r}, and its default is {default!r}: "
                           "they are of one type")
        if isinstance(value, str) and _UNWRITABLE.search(value):
            raise BadInput(f"{where} offers {value!r}: --impl {owner}:{parameter.name}=... takes "
                           "no space, comma or colon")
    if default not in values:
        raise BadInput(f"{where} has the default {default!r}, which is not one that it offers: "
                       f"{_listed(values)}")
    return (default, *(value for value in dict.fromkeys(values) if value != default))


def options_of(owner: str, function: Callable[..., Any], positional: Sequence[str]) -> Options:
    """Reads the signature of ``function``, which takes ``positional`` and options."""
    defaults: Dict[str, Option] = {}
    offers: Dict[str, Tuple[Option, ...]] = {}
    given = 0
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            given = len(positional)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if type(parameter.default) not in _TYPES:
                raise BadInput(f"{owner}: option {parameter.name} needs a default that is int, "
                               "float, bool or str")
            defaults[parameter.name] = parameter.default
            offered = _offered(owner, function, parameter)
            if offered:
                offers[parameter.name] = offered
        elif parameter.kind is not parameter.VAR_KEYWORD:
            if parameter.default is parameter.empty or given < len(positional):
                given += 1
    if given != len(positional):
        raise BadInput(f"{owner} takes {given} positional arguments, wanted "
                       f"{owner}({', '.join(positional)}); options are keyword-only: "
                       "def f(..., *, chunk=128)")
    return Options(defaults, offers)
