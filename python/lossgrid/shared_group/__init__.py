# SPDX-License-Identifier: Apache-2.0
"""A process group of torch.distributed for processes of one machine, over shared memory."""
from lossgrid.shared_group.registration import NAME, OLDEST_TORCH, available, register

__all__ = ["NAME", "OLDEST_TORCH", "available", "register"]
