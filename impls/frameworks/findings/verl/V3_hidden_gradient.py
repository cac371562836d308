# SPDX-License-Identifier: Apache-2.0
"""verl: the fused linear log-probabilities leave the gradient of hidden states by vocabulary shard.

To be run with python -O, which drops the kernels' assertions that tensors are on a GPU; they run in
Triton's interpreter.
"""
import os

os.environ["TRITON_INTERPRET"] = "1"

import contextlib
from types import SimpleNamespace as Namespace

import support
import torch
import torch.distributed as dist
from support import ranks, show

T, H, V = 16, 128, 256


def prepare():
    """Lets the kernels run here: masks of the interpreter are bool, streams do nothing."""
    from triton.runtime.interpreter import InterpreterBuilder as Builder
    for name, place in (("create_masked_load", 1), ("create_masked_store", 2)):
        def call(self, *given, old=getattr(Builder, name), place=place):
            given[place].data = given[place].data.astype(bool)
            return old(self, *given)
        setattr(Builder, name, call)
    torch.cuda.nvtx.range = lambda *_: contextlib.nullcontext()
    from verl.utils.kernel import kernels

    class Event:
        def record(self, *_): pass

    class Stream:
        record_event = wait_event = lambda *_: None

    kernels.get_torch_device = lambda: Namespace(
        Stream=lambda *_: Stream(), Event=Event, current_stream=Stream, set_device=lambda *_: None,
        stream=lambda _: contextlib.nullcontext())


def run(rank):
    prepare()
    from verl.utils.kernel import linear_cross_entropy as module
    for tp in (1, 2):
        torch.manual_seed(1)
        hidden, weight = torch.randn(T, H), torch.randn(V, H) / 8
        labels = torch.randint(V, (T,))
        own = slice(rank * V // tp, (rank + 1) * V // tp) if rank < tp else slice(0, 0)
        group = dist.new_group(list(range(tp)))
        if rank >= tp:
            continue
        h = hidden.clone().requires_grad_()
        lp, _ = module.linear_cross_entropy(h, weight[own], labels, 1.0, "none",
                                            group if tp > 1 else None)
        lp.sum().backward()
        p = (hidden @ weight.t()).softmax(1)
        want = weight[labels] - p @ weight
        show(f"tp {tp}, rank {rank}: relative error of d hidden",
             float((h.grad - want).norm() / want.norm()), 0.0)


if __name__ == "__main__":
    ranks(2, run)
