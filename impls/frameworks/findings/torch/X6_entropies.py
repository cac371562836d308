# SPDX-License-Identifier: Apache-2.0
"""Entropies of three packages under lossgrid: max + log s - sum p z of raw logits, and 0 * -inf."""
import lossgrid
import support

lossgrid.packages("verl", "areal", "skyrl", "megatron-core")
KIND = dict(returns=("logprobs", "entropy"), vocab_split="equal", megatron=True,
            autograd="nonleaf", overwrites=("logits",))


@lossgrid.implementation(**KIND)
def verl(logits, batch):
    from verl.utils.megatron import tensor_parallel as tp
    kept = logits.clone()
    h = tp.vocab_parallel_entropy(kept[None])[0]
    return tp.vocab_parallel_log_probs_from_logits(logits[None], batch.labels[None])[0], h


@lossgrid.implementation(**KIND)
def areal(logits, batch):
    from areal.utils.functional.vocab_parallel import gather_logprobs_entropy
    return gather_logprobs_entropy(logits, batch.labels,
                                   tp_group=batch.tp.group if batch.tp.size > 1 else None)


@lossgrid.implementation(**{**KIND, "returns": "logprobs"})
def areal_metric(logits, batch):
    """The entropy is a metric, from which no gradient comes back."""
    return areal(logits, batch)[0]


def only_tp1(problem):
    return "" if problem.grid.tp == 1 else "has no tensor parallelism"


@lossgrid.implementation(**{**KIND, "megatron": False}, supports=only_tp1)
def verl_fsdp(logits, batch):
    from verl.utils import torch_functional as F
    return F.logprobs_from_logits_v2(logits, batch.labels), F.entropy_from_logits(logits)


@lossgrid.implementation(**KIND)
def skyrl(logits, batch):
    from skyrl.backends.skyrl_train.distributed.megatron import model_utils
    return (tp_logprobs(logits.clone(), batch),
            model_utils.vocab_parallel_entropy(logits[None].clone())[0])


def tp_logprobs(logits, batch):
    """Returns the log-probabilities of Megatron-core, which are not what is looked at."""
    from megatron.core.tensor_parallel import vocab_parallel_cross_entropy
    return -vocab_parallel_cross_entropy(logits[None], batch.labels[None])[0]
