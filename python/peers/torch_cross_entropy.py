# SPDX-License-Identifier: Apache-2.0
"""PyTorch's F.cross_entropy, eager and under torch.compile, of logits and of F.linear."""
import lossgrid
import torch
from mean_over_targets import IGNORED, unsupported
from torch.nn.functional import cross_entropy, linear


def mean(logits, labels):
    """Returns the mean, from float32 logits as training code has them: in bf16 it is not right."""
    return cross_entropy(logits.float(), labels, ignore_index=IGNORED)


def mean_of_hidden(hidden, weight, labels):
    return mean(linear(hidden, weight), labels)


def unsupported_by_token(problem):
    return "takes whole rows of logits: tp=1" if problem.grid.tp > 1 else ""


def unsupported_compiled(problem):
    if not hasattr(torch, "compile") or not hasattr(torch.compiler, "reset"):
        return f"PyTorch {torch.__version__} has no torch.compile with torch.compiler.reset"
    return unsupported(problem)


@lossgrid.implementation(returns="loss", supports=unsupported)
def torch_eager(logits, batch):
    """F.cross_entropy of float32 logits."""
    return mean(logits, batch.labels_ignore)


@lossgrid.implementation(returns="nll", supports=unsupported_by_token)
def torch_by_token(logits, batch):
    """F.cross_entropy of float32 logits with reduction="none"."""
    return cross_entropy(logits.float(), batch.labels, reduction="none")


@lossgrid.implementation(returns="loss", supports=unsupported_compiled)
def torch_compiled(logits, batch):
    """F.cross_entropy of float32 logits under torch.compile."""
    return compiled(mean, logits, batch.labels_ignore)


@lossgrid.implementation(inputs="hidden", returns="loss", supports=unsupported,
                         rounds=("logits", "grad_logits", "grad_weight"))
def torch_linear_eager(hidden, weight, batch):
    """F.cross_entropy of F.linear."""
    return mean_of_hidden(hidden, weight, batch.labels_ignore)


@lossgrid.implementation(inputs="hidden", returns="loss", supports=unsupported_compiled,
                         rounds=("logits", "grad_logits", "grad_weight"))
def torch_linear_compiled(hidden, weight, batch):
    """F.cross_entropy of F.linear under torch.compile."""
    return compiled(mean_of_hidden, hidden, weight, batch.labels_ignore)


_last = None


def compiled(function, *arguments):
    """Calls `function` compiled for the shapes of `arguments`. Code compiled for other shapes is
    dropped: PyTorch counts it against a limit beyond which it calls the function uncompiled."""
    global _last
    compiled_for = (function, [(one.shape, one.dtype) for one in arguments])
    if compiled_for != _last:
        torch.compiler.reset()
        _last = compiled_for
    return torch.compile(function, dynamic=False)(*arguments)
