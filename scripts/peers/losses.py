# SPDX-License-Identifier: Apache-2.0
"""The peers: cross entropies of other libraries, as their users call them, mean over the targets.

A new peer is a function here and a line in PEERS.
"""

import importlib
from dataclasses import dataclass
from typing import Callable

from peers.bundle import IGNORED


def cross_entropy(torch, inputs, targets):
    """Logits in float32, as training code has them: a loss of bf16 logits in bf16 is not right."""
    logits = inputs.get("logits")
    if logits is None:
        logits = torch.nn.functional.linear(inputs["hidden"], inputs["weight"])
    return torch.nn.functional.cross_entropy(logits.float(), targets, ignore_index=IGNORED)


def make_eager(torch, _):
    return lambda inputs, targets: cross_entropy(torch, inputs, targets)


def make_compiled(torch, _):
    torch.compiler.reset()  # what was compiled for another case counts against a limit
    return torch.compile(lambda inputs, targets: cross_entropy(torch, inputs, targets),
                         dynamic=False)


def make_chunked(torch, _):
    options = torch.nn.LinearCrossEntropyOptions()
    return lambda inputs, targets: torch.nn.functional.linear_cross_entropy(
        inputs["hidden"], inputs["weight"], targets, ignore_index=IGNORED, options=options)


def chunks_of_torch(bundle):
    """By its default "aspect_ratio": logits of a chunk are not larger than the hidden states."""
    if not bundle.hidden:
        return 0
    rows = -(-bundle.tokens // -(-bundle.vocab // bundle.hidden))
    return -(-bundle.tokens // (1 << (rows - 1).bit_length()))


def make_liger(torch, bundle):
    functional = importlib.import_module("liger_kernel.transformers.functional")
    if not bundle.hidden:
        return lambda inputs, targets: functional.liger_cross_entropy(
            inputs["logits"], targets, ignore_index=IGNORED)
    return lambda inputs, targets: functional.liger_fused_linear_cross_entropy(
        inputs["hidden"], inputs["weight"], targets, ignore_index=IGNORED,
        accum_dtype=torch.float32)


def make_cce(**options):
    def make(_, __):
        cce = importlib.import_module("cut_cross_entropy")
        return lambda inputs, targets: cce.linear_cross_entropy(
            inputs["hidden"], inputs["weight"], targets, ignore_index=IGNORED, **options)
    return make


@dataclass(frozen=True)
class Peer:
    name: str
    about: str
    make: Callable                 # (torch, bundle) -> (inputs by name, targets) -> loss
    takes: tuple = ("logits", "hidden")
    needs: tuple = ()              # attributes of torch, "nn.functional.x"
    module: str = ""               # that has to be importable
    on_cpu: bool = True
    one_pass: bool = False         # gradients are made in the forward pass
    writes_logits: bool = False    # the gradient takes the place of the logits
    # What it declares to the bounds (truth.py), from hidden states:
    rounds_logits: bool = True     # to the dtype of hidden states and weight
    chunk_adds: Callable = lambda bundle: 0  # to the weight's gradient in the weight's dtype

    def why_not(self, torch, bundle, device):
        """Why it cannot be tried, in one line, or ""; raises nothing."""
        if ("hidden" if bundle.hidden else "logits") not in self.takes:
            return f"takes {self.takes[0]}{'' if self.takes[0] == 'logits' else ' states'}"
        for attribute in self.needs:
            owner = torch
            for part in attribute.split("."):
                owner = getattr(owner, part, None)
            if owner is None:
                return f"PyTorch {torch.__version__} has no torch.{attribute}"
        if self.module:
            try:
                importlib.import_module(self.module)
            except Exception as error:  # a library may raise anything while it looks for a GPU
                return f"{self.module} cannot be imported: {one_line(error)}"
        if device == "cpu" and not self.on_cpu:
            return "needs a GPU: its kernels are Triton's"
        return ""


def one_line(error):
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."


PEERS = (
    Peer("torch", "F.cross_entropy of float32 logits, eager; of F.linear from hidden states",
         make_eager),
    Peer("torch_compile", "the same under torch.compile", make_compiled,
         needs=("compile", "compiler.reset")),
    Peer("torch_linear_cross_entropy", "torch.nn.functional.linear_cross_entropy, in chunks",
         make_chunked, takes=("hidden",), one_pass=True,
         needs=("nn.functional.linear_cross_entropy", "nn.LinearCrossEntropyOptions"),
         chunk_adds=chunks_of_torch),
    Peer("liger", "Liger's cross entropy, in place; from hidden states fused, float32 sums",
         make_liger, module="liger_kernel.transformers.functional", on_cpu=False, one_pass=True,
         writes_logits=True),
    Peer("cce", "cut_cross_entropy, which leaves out small gradients", make_cce(),
         takes=("hidden",), module="cut_cross_entropy", on_cpu=False, rounds_logits=False),
    Peer("cce_unfiltered", "the same with filter_eps=None", make_cce(filter_eps=None),
         takes=("hidden",), module="cut_cross_entropy", on_cpu=False, rounds_logits=False),
)
