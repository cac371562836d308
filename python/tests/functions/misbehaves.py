# SPDX-License-Identifier: Apache-2.0
"""Functions that print, raise, exit, crash and hang."""
import ctypes
import json
import os
import sys
import time

import lossgrid
import torch

print("printed on import")


def _lp(logits):
    return torch.log_softmax(logits, 1)[:, 0]


@lossgrid.implementation
def prints(logits, batch):
    print(f"rank {batch.world.rank} of {batch.world.size} prints")
    os.write(1, b"raw bytes\n")
    print("to stderr", file=sys.stderr)
    return _lp(logits)


@lossgrid.implementation
def raises(logits, batch):
    return _inner(batch)


def _inner(batch):
    raise ValueError("seven is\nnot eight")


@lossgrid.implementation
def raises_in_library(logits, batch):
    return json.loads("seven")


@lossgrid.implementation
def raises_in_torch(logits, batch):
    return logits @ logits.t() @ torch.ones(3, 1000)


class _RaisesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        raise KeyError("in the backward")


@lossgrid.implementation
def raises_backward(logits, batch):
    return _RaisesBackward.apply(_lp(logits))


@lossgrid.implementation
def sys_exit(logits, batch):
    sys.exit(3)


@lossgrid.implementation
def os_exit(logits, batch):
    print("last words")
    os._exit(3)


@lossgrid.implementation
def segfault(logits, batch):
    ctypes.string_at(0)


@lossgrid.implementation
def hangs(logits, batch):
    time.sleep(1000)


@lossgrid.implementation
def hangs_in_gloo(logits, batch):
    if batch.world.rank == 0:
        torch.distributed.all_reduce(torch.zeros(1), group=batch.world.group)
    else:
        time.sleep(1000)
    return _lp(logits)


@lossgrid.implementation
def memory_error(logits, batch):
    raise MemoryError("no room")


@lossgrid.implementation
def out_of_memory(logits, batch):
    return torch.empty(1 << 60)


@lossgrid.implementation(supports=lambda problem: "" if problem.grid.tp == 1 else "tp is not 1")
def supports_tp1(logits, batch):
    return _lp(logits)


@lossgrid.implementation(supports=lambda problem: problem.objective["kind"] == "dpo")
def supports_bool(logits, batch):
    return _lp(logits)


@lossgrid.implementation(supports=lambda problem: problem.vocabulary)
def supports_raises(logits, batch):
    return _lp(logits)


@lossgrid.implementation(supports=lambda problem: 7)
def supports_seven(logits, batch):
    return _lp(logits)


@lossgrid.implementation
def threads(logits, batch):
    assert torch.get_num_threads() == 2, torch.get_num_threads()
    return _lp(logits)
