# SPDX-License-Identifier: Apache-2.0
"""The way in which the ranks of a world meet: shared memory, gloo or NCCL."""
from __future__ import annotations

import os

import torch
import torch.distributed as dist

from lossgrid import shared_group
from lossgrid.errors import BadInput

VARIABLE = "LOSSGRID_COLLECTIVES"
_WORDS = ("auto", "shared", "gloo", "nccl")


def requested() -> str:
    """Returns the word of the environment. Raises BadInput where it is none."""
    word = os.environ.get(VARIABLE) or "auto"
    if word not in _WORDS:
        raise BadInput(f"{VARIABLE} is {word!r}, wanted one of {', '.join(_WORDS)}")
    return word


def prepare(word: str) -> None:
    """Sets the word, unless it is empty, for this process and the workers that it starts."""
    os.environ[VARIABLE] = word or requested()
    if requested() in ("auto", "shared") and shared_group.available():
        shared_group.register()  # once, and not in every worker


def backend(size: int, one_machine: bool) -> str:
    """Returns the backend of torch.distributed for a world of ``size`` ranks.

    Without a request these are NCCL for tensors of a GPU and gloo for others where every rank has a
    GPU, else shared memory; gloo where ranks of other machines take part or shared memory is
    not available.
    """
    word = requested()
    if word == "shared":
        if not one_machine:
            raise BadInput("collectives through shared memory need all ranks on one machine")
        if not shared_group.available():
            raise BadInput(f"collectives through shared memory need Linux and torch "
                           f"{shared_group.OLDEST_TORCH} or newer, this is {torch.__version__}")
    if word == "nccl" or (word == "auto" and _gpu_each(size)):
        if not dist.is_nccl_available():
            raise BadInput(f"torch {torch.__version__} was built without NCCL")
        return "cpu:gloo,cuda:nccl"
    if word == "shared" or (word == "auto" and one_machine and shared_group.available()):
        shared_group.register()
        return shared_group.NAME
    return "gloo"


def _gpu_each(size: int) -> bool:
    composed = int(torch.__version__.split(".")[0]) >= 2
    return composed and dist.is_nccl_available() and torch.cuda.is_available() and \
        torch.cuda.device_count() >= size
