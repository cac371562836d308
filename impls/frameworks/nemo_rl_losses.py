# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL, of the source folder NEMO_RL_SOURCE: log-probabilities, entropies, its fused LM head, policy
and preference losses behind its wrapper of packed sequences."""
import typing
from typing import Literal

import lossgrid
import torch
import typing_extensions
from adapter_kit import by_id, equal_shards, first, nll, sigmoid_loss
from lossgrid import stubs

typing.TypedDict = typing_extensions.TypedDict  # pydantic refuses the other one on Python 3.11
stubs.install("ray", "requests", "PIL", "zmq", "mlflow", "swanlab", "wandb", "matplotlib", "hydra",
              "prometheus_client", "tensorboard", "pynvml", "google", "uvicorn", "fastapi",
              "megatron.bridge", "megatron.core.transformer.moe.moe_logging")
stubs.no_cuda()
stubs.no_compile()
import tensorboard

tensorboard.__version__ = "2"  # torch.utils.tensorboard refuses the one of stand-ins
lossgrid.source("NEMO_RL_SOURCE", "nemo_rl")
lossgrid.packages("megatron-core", "torch")
import megatron_bigram
from megatron.core.packed_seq_params import PackedSeqParams
from nemo_rl.algorithms import loss as losses
from nemo_rl.algorithms.loss.utils import _pack_input_ids, prepare_packed_loss_input
from nemo_rl.distributed import model_utils
from nemo_rl.distributed.batched_data_dict import BatchedDataDict
from nemo_rl.models.megatron import train
from nemo_rl.models.megatron.data import ProcessedMicrobatch

shards = dict(vocab_split="padded:-1e30")


def of_kind(kind):
    return lambda problem: "" if problem.objective["kind"] == kind else f"it is a loss of {kind}"


@lossgrid.implementation(**shards)
def nemo_logprobs(logits, batch):
    """DistributedLogprob."""
    return model_utils.DistributedLogprob.apply(
        logits[None], batch.labels[None], batch.vocab_start, batch.vocab_end, batch.tp.group)[0]


@lossgrid.implementation(**shards)
def nemo_logprobs_chunked(logits, batch, *, chunk: Literal[1024, 7] = 1024):
    """ChunkedDistributedLogprob."""
    return model_utils.ChunkedDistributedLogprob.apply(
        logits[None], batch.labels[None], batch.vocab_start, batch.vocab_end, chunk,
        batch.tp.group)[0]


@lossgrid.implementation(rows="padded", gradient="summed_over_cp", **shards)
def nemo_packed_logprobs(logits, batch, *, chunk: Literal[0, 7] = 0):
    """from_parallel_logits_to_logprobs_packed_sequences, with its gather over CP."""
    return model_utils.from_parallel_logits_to_logprobs_packed_sequences(
        logits[None], batch.ids_padded[None], batch.cu_seqlens_padded, batch.attention_mask.shape[1],
        batch.vocab_start, batch.vocab_end, batch.tp.group, cp_group=batch.cp.group,
        chunk_size=chunk or None)


@lossgrid.implementation(megatron=True, **shards)
def nemo_full_log_softmax(logits, batch):
    """vocab_parallel_full_log_softmax, of which the ids that come next are taken."""
    rows = model_utils.vocab_parallel_full_log_softmax(logits[None], 1.0, tp_group=batch.tp.group)
    return rows[0].gather(1, batch.labels[:, None])[:, 0]


@lossgrid.implementation(returns=("logprobs", "entropy"), **shards)
def nemo_entropy(logits, batch, *, chunk: Literal[1024, 7] = 1024):
    """ChunkedDistributedEntropy, which is a sum of p log p, and ChunkedDistributedLogprob."""
    sums = model_utils.ChunkedDistributedEntropy.apply(logits[None], chunk, batch.tp.group)
    return nemo_logprobs_chunked(logits, batch, chunk=chunk), -sums[0]


def linear_layouts(problem):
    if problem.grid.tp > 1 and not problem.sequence_parallel:
        return "it takes hidden states of sequence parallelism with TP"
    if problem.temperature != 1:
        return "it has no temperature: its caller divides the log-probabilities (finding N7)"
    return "its linear cross entropy refuses CP" if problem.grid.cp > 1 else equal_shards(problem)


@lossgrid.implementation(inputs="hidden", supports=linear_layouts, rounds=("logits", "grad_weight"))
def nemo_linear(hidden, weight, batch, *, chunk: Literal[256, 16] = 256):
    """ChunkedDistributedHiddenStatesToLogprobs, its fused LM head."""
    return model_utils.ChunkedDistributedHiddenStatesToLogprobs.apply(
        hidden[:, None], batch.labels[None], by_id(weight, batch), batch.vocab_start,
        batch.vocab_end, chunk, batch.tp.group)[0]


WRAPPERS = {"by_sequence": (losses.SequencePackingLossWrapper, losses.prepare_loss_input),
            "fused": (losses.SequencePackingFusionLossWrapper, prepare_packed_loss_input)}
Packing = Literal["by_sequence", "fused"]


def counts(batch):
    return {"global_valid_seqs": torch.tensor(float(batch.denominators.valid_sequences)),
            "global_valid_toks": torch.tensor(float(batch.denominators.valid_tokens))}


def packed(packing, function, logits, batch, **tables):
    """Returns a loss of NeMo-RL behind a wrapper of packed sequences; tables are [T_pad]."""
    wrapper, prepare = WRAPPERS[packing]
    tables.update(input_ids=batch.ids_padded, token_mask=batch.tokens.mask.float())
    data = BatchedDataDict({name: batch.rows_to_padded(x) for name, x in tables.items()},
                           sample_mask=batch.sample_mask.float(),
                           rewards=getattr(batch, "rewards", torch.zeros(len(batch.lengths))))
    return wrapper(function, prepare, batch.cu_seqlens, batch.cu_seqlens_padded, batch.tp.rank,
                   batch.tp.group, batch.cp.group)(logits[None], data, **counts(batch))[0]


loss = dict(returns="loss", gradient="summed_over_cp", **shards)


@lossgrid.implementation(supports=nll, **loss)
def nemo_nll(logits, batch, *, packing: Packing = "by_sequence"):
    """NLLLossFn."""
    return packed(packing, losses.NLLLossFn(), logits, batch)


@lossgrid.implementation(supports=of_kind("clipped_pg"), **loss)
def nemo_policy(logits, batch, *, packing: Packing = "by_sequence"):
    """ClippedPGLossFn: PPO with dual clip, GSPO, CISPO. Its options are those of clipped_pg."""
    config = losses.ClippedPGLossConfig(**batch.objective)
    unread = torch.zeros(len(batch.ids_padded))  # of a table that these options do not need
    tables = {name: getattr(batch.tokens, name, unread) for name in (
        "advantages", "prev_logprobs", "generation_logprobs", "reference_policy_logprobs")}
    return packed(packing, losses.ClippedPGLossFn(config), logits, batch, **tables)


@lossgrid.implementation(supports=first(
    of_kind("dpo"), lambda p: "" if sigmoid_loss(p.objective) else "it has the logistic loss"),
    **loss)
def nemo_dpo(logits, batch):
    """DPOLossFn. Its options are those of dpo, its reference is aligned with rows."""
    function = losses.DPOLossFn(losses.DPOLossConfig(**batch.objective))
    return packed("fused", function, logits, batch,
                  reference_policy_logprobs=batch.pack.reference_policy_logprobs)


@lossgrid.engine(megatron=True, supports=megatron_bigram.supports)
def nemo_megatron_engine(bigram, batch, evaluate, *, microbatches: Literal[2, 1] = 2):
    """megatron_forward_backward with LossPostProcessor and NLLLossFn: Megatron's schedule, and the
    sum over DP x CP of its DDP. Offsets are made here: its own need a newer Megatron-core."""
    data = BatchedDataDict(
        input_ids=batch.rows_to_padded(batch.ids_padded), input_lengths=batch.lengths,
        token_mask=batch.rows_to_padded(batch.tokens.mask).float(),
        sample_mask=batch.sample_mask.float())
    multiple = 2 * batch.cp.size * batch.tp.size
    packs = []
    for part in megatron_bigram.parts_of(batch, microbatches):
        own, lengths = data.slice(part.start, part.stop), batch.lengths[part]
        cu, cu_padded = (torch.nn.functional.pad(x.cumsum(0), (1, 0)) for x in (
            lengths, -(-lengths // multiple) * multiple))
        ids = _pack_input_ids(own["input_ids"], cu, cu_padded, batch.cp.rank, batch.cp.size)
        packs.append(ProcessedMicrobatch(own, ids, ids, None, None, PackedSeqParams(
            cu_seqlens_q=cu, cu_seqlens_q_padded=cu_padded), cu_padded))
    after = train.LossPostProcessor(losses.NLLLossFn(), {"sequence_packing": {"enabled": True}},
                                    num_microbatches=len(packs))
    metrics = train.megatron_forward_backward(
        megatron_bigram.MegatronBigram(bigram), iter(packs), len(packs), data["input_ids"].shape[1],
        1, after, forward_only=evaluate, **counts(batch))
    megatron_bigram.reduce_gradient(bigram, batch, evaluate, 1)
    return megatron_bigram.sum_over_dp([one["loss"] for one in metrics], batch)
