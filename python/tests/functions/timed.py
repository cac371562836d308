# SPDX-License-Identifier: Apache-2.0
"""Functions whose time is known."""
import sys
import time

import lossgrid
import torch
from lossgrid.views import View


@lossgrid.implementation
def tells_imports(logits, batch):
    print(len(sys.modules))
    return logits[:, 0]


class _Sleeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, there, back):
        ctx.back = back
        time.sleep(there)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        time.sleep(ctx.back)
        return g * 1, None, None


@lossgrid.implementation
def sleeps(logits, batch, *, forward_ms=0, backward_ms=0):
    return _Sleeps.apply(logits[:, 0], forward_ms / 1000, backward_ms / 1000)


def _slow(batch):
    time.sleep(0.3)
    return torch.zeros(1)


@lossgrid.implementation
def slow_view(logits, batch):
    View(_slow).__get__(batch)
    return logits[:, 0]


@lossgrid.implementation
def late_start(logits, batch):
    torch.distributed.all_reduce(torch.ones(1), group=batch.world.group)
    return logits[:, 0]
