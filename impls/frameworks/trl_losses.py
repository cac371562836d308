# SPDX-License-Identifier: Apache-2.0
"""TRL: log-probabilities and entropies of its trainers."""
import lossgrid
from adapter_kit import one_rank
from lossgrid import stubs

lossgrid.packages("trl", "torch")
stubs.install("datasets", "pandas", "pyarrow")
from trl.trainer import utils


@lossgrid.implementation(supports=one_rank)
def trl_logprobs(logits, batch):
    """selective_log_softmax."""
    return utils.selective_log_softmax(logits[None], batch.labels[None])[0]


@lossgrid.implementation(supports=one_rank)
def trl_logprobs_padded(logits, batch):
    """selective_log_softmax of a row mask."""
    return utils.selective_log_softmax(logits[None], batch.labels[None],
                                       row_mask=batch.predicts[None])[0]


@lossgrid.implementation(returns=("logprobs", "entropy"), supports=one_rank)
def trl_entropy(logits, batch):
    """selective_log_softmax_and_entropy."""
    logprobs, entropy = utils.selective_log_softmax_and_entropy(logits[None], batch.labels[None])
    return logprobs[0], entropy[0]
