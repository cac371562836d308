# SPDX-License-Identifier: Apache-2.0
"""The backend "shared" of torch.distributed."""
from __future__ import annotations

import os
from typing import Any, Tuple

import torch
import torch.distributed as dist

from lossgrid.shared_group import futex

NAME = "shared"
OLDEST_TORCH = "2.6"


def available() -> bool:
    """Returns true if ``register`` works on this system and with this torch."""
    return _numbers(torch.__version__) >= _numbers(OLDEST_TORCH) and futex.available() and \
        hasattr(os, "memfd_create")


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(number) for number in version.split(".")[:2])


def register() -> None:
    """Makes the backend known; ``dist.init_process_group("shared", ...)`` takes it."""
    from lossgrid.shared_group import process_group  # noqa: F401  # before processes are forked
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options: Any, _: Any) -> Any:
    from lossgrid.shared_group.process_group import SharedGroup  # needs this torch
    return SharedGroup(options.store, options.group_rank, options.group_size,
                       options.global_ranks_in_group, options.timeout)
