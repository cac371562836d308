# SPDX-License-Identifier: Apache-2.0
"""lossgrid: verification and benchmarks of distributed LLM losses.

A file for ``lossgrid --load FILE`` imports this package::

    import lossgrid

    @lossgrid.implementation
    def mine(logits, batch):                # [T_c, V_t] of this rank
        return logprobs(logits, batch.labels, batch.tp.group)   # [T_c], differentiable

See :func:`lossgrid.implementation`, :func:`lossgrid.engine`, :class:`lossgrid.Batch`.
"""
from typing import TYPE_CHECKING, Any

from lossgrid.cost import Cost, Phase
from lossgrid.declaration import engine, implementation
from lossgrid.megatron_state import megatron
from lossgrid.problem import Denominators, Grid, Problem
from lossgrid.provenance import packages, source
from lossgrid.testing.hunt import hunt
from lossgrid.testing.suite import suite

if TYPE_CHECKING:
    from lossgrid.batch import Batch
    from lossgrid.groups import Axis

__all__ = ["Axis", "Batch", "Cost", "Denominators", "Grid", "Phase", "Problem", "engine",
           "hunt", "implementation", "megatron", "packages", "source", "suite"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The following modules need torch; a launcher without torch imports this package to report
    # that.
    if name == "Batch":
        from lossgrid.batch import Batch
        return Batch
    if name == "Axis":
        from lossgrid.groups import Axis
        return Axis
    raise AttributeError(f"module 'lossgrid' has no attribute {name!r}")
