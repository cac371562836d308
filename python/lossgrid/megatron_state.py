# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's parallel_state, for code that reads its groups from this module."""
from __future__ import annotations

import sys
from typing import Any, Dict, Optional, Tuple

from lossgrid.errors import BadInput
from lossgrid.problem import Grid

_current: Optional[Grid] = None  # grid of the current trial
_initialised: Optional[Tuple[int, int, int]] = None
_states: Dict[Tuple[int, int, int], Dict[str, Any]] = {}  # states of earlier grids


def enter_grid(grid: Optional[Grid]) -> None:
    """Sets the grid that :func:`megatron` initialises."""
    global _current
    _current = grid


def import_megatron() -> Any:
    """Returns megatron.core.parallel_state. Raises BadInput if Megatron-core is not installed."""
    try:
        from megatron.core import parallel_state
    except ImportError as error:
        if error.name is not None and not error.name.startswith("megatron"):
            raise
        raise BadInput(f"{sys.executable} has no megatron.core: {sys.executable} -m pip install "
                       "megatron-core") from None
    return parallel_state


def megatron() -> None:
    """Initialises ``megatron.core.parallel_state`` with the ranks of the current grid.

    Every rank calls it, inside of an implementation, before it reads Megatron's groups;
    ``@lossgrid.implementation(megatron=True)`` calls it before each trial. Ranks have the same
    order in both (tp fastest, then cp, then dp). The groups of a grid are made once: ranks that
    return to a grid find the state that they left.
    """
    global _initialised
    if _current is None:
        raise BadInput("lossgrid.megatron() is called inside of an implementation, not when its "
                       "file is loaded: there are no ranks yet")
    parallel_state = import_megatron()
    sizes = (_current.tp, _current.cp, _current.dp)
    if _initialised == sizes and parallel_state.model_parallel_is_initialized():
        return
    if _initialised is not None:
        _states[_initialised] = _globals(parallel_state)
    if sizes in _states:
        vars(parallel_state).update(_states[sizes])
    else:
        if parallel_state.model_parallel_is_initialized():
            parallel_state.destroy_model_parallel()
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=_current.tp,
                                                 context_parallel_size=_current.cp)
    _initialised = sizes


def _globals(module: Any) -> Dict[str, Any]:
    """Returns the module's variables: groups, ranks and sizes."""
    return {name: value for name, value in vars(module).items()
            if name.startswith("_") and name.isupper()}
