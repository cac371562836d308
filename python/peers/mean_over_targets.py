# SPDX-License-Identifier: Apache-2.0
"""Common part of the peers: the mean of the cross entropy over the targets, as users of the
libraries call them, and the problems that have such a mean. Declares nothing itself."""
import importlib.util

import lossgrid

IGNORED = -100  # label of a row that is not trained on: `batch.labels_ignore`


def unsupported(problem, library="", needs_gpu=False):
    """Returns the reason why a peer cannot take `problem`, in one line, or ""."""
    if library and importlib.util.find_spec(library) is None:
        return f"{library} is not installed"
    if problem.grid != lossgrid.Grid():
        return "takes the whole batch on one rank: grid tp1cp1"
    if problem.objective["kind"] != "nll" or not problem.objective.get("token_level_loss", True):
        return "the loss is the mean of nll over tokens"
    if problem.microbatches > 1:
        return "the mean is over one pack: microbatches=1"
    if problem.valid_tokens == 0:
        return "no token is trained on: there is no mean of nothing"
    if problem.valid_tokens != problem.denominators.valid_tokens:
        return (f"the mean is over the {problem.valid_tokens} targets of the pack, not "
                f"{problem.denominators.valid_tokens}")
    if problem.dtype == "float64":
        return "takes float32 and bfloat16"
    if problem.weight_layout != "vocab_hidden":
        return "takes a weight [V, H]: weight_layout=vocab_hidden"
    if problem.temperature != 1:
        return "has no temperature"
    if needs_gpu and problem.device != "cuda":
        return "needs a GPU"
    return ""
