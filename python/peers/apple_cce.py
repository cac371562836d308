# SPDX-License-Identifier: Apache-2.0
"""Apple's Cut Cross Entropy."""
import lossgrid
from mean_over_targets import IGNORED, unsupported


def supports(problem):
    return unsupported(problem, library="cut_cross_entropy", needs_gpu=True)


def mean(hidden, weight, batch, **options):
    from cut_cross_entropy import linear_cross_entropy  # looks for a GPU
    return linear_cross_entropy(hidden, weight, batch.labels_ignore, ignore_index=IGNORED,
                                **options)


@lossgrid.implementation(inputs="hidden", returns="loss", supports=supports,
                         rounds=("grad_logits", "grad_weight"))
def cce(hidden, weight, batch):
    """Cut Cross Entropy, which leaves out small gradients."""
    return mean(hidden, weight, batch)


@lossgrid.implementation(inputs="hidden", returns="loss", supports=supports,
                         rounds=("grad_logits", "grad_weight"))
def cce_unfiltered(hidden, weight, batch):
    """Cut Cross Entropy with all gradients."""
    return mean(hidden, weight, batch, filter_eps=None)
