# SPDX-License-Identifier: Apache-2.0
"""AReaL: log-probabilities and entropies over a split vocabulary, PPO, DPO, its engine on Megatron."""
from types import SimpleNamespace
from typing import Literal

import lossgrid
import torch
from adapter_kit import dpo, equal_shards, first, nll, policy_loss, transforms
from lossgrid import stubs

lossgrid.packages("areal", "megatron-core", "torch")
stubs.install("ray", "datasets", "aiohttp", "pandas", "mistral_common", "peft", "tenacity",
              "flask", "fastapi", "uvicorn", "uvloop", "aiofiles", "openai", "zmq", "requests", "pybase64",
              "setproctitle", "swanlab", "wandb", "tensorboardX", "hydra", "numba", "mbridge", "trackio",
              "cookiecutter", "torchdata", "pebble", "pynvml", "nltk", "PIL", "litellm", "anthropic",
              "qwen_agent", "lark", "werkzeug", "megatron.bridge")
stubs.no_cuda()
stubs.no_compile()
import megatron_bigram
from areal.api import ParallelStrategy
from areal.api.cli_args import MicroBatchSpec, TrainEngineConfig
from areal.engine.megatron_engine import MegatronEngine
from areal.trainer.sft.lm_engine import LMEngine, compute_packed_sft_loss
from areal.utils import functional


@lossgrid.implementation(vocab_split="padded:-1e30", takes="transforms",
                         supports=transforms("temperature"))
def areal_logprobs(logits, batch, *, chunk: Literal[1024, 16] = 1024):
    """gather_logprobs."""
    return functional.gather_logprobs(logits, batch.labels, batch.temperature, batch.tp.group,
                                      chunk)


@lossgrid.implementation(returns=("logprobs", "entropy"), vocab_split="padded:-1e30",
                         takes="transforms", supports=transforms("temperature"))
def areal_entropy(logits, batch, *, chunk: Literal[1024, 16] = 1024):
    """gather_logprobs_entropy."""
    return functional.gather_logprobs_entropy(logits, batch.labels, batch.temperature,
                                              batch.tp.group, chunk)


@lossgrid.implementation(returns="loss", vocab_split="padded:-1e30",
                         supports=policy_loss("ratio_clip_c"))
def areal_ppo(logits, batch):
    """ppo_actor_loss_fn behind gather_logprobs, weighted with the share of the pack in the tokens."""
    options, pack = batch.objective, batch.pack
    logprobs = batch.join_cp(torch.where(batch.predicts, areal_logprobs(logits, batch), 0))
    loss, _ = functional.ppo_actor_loss_fn(
        logprobs, pack.prev_logprobs, pack.prev_logprobs, pack.advantages,
        options["ratio_clip_min"], pack.mask, options["ratio_clip_max"], options["ratio_clip_c"])
    return loss * (pack.mask.sum() / batch.denominators.valid_tokens)


@lossgrid.implementation(returns="loss", vocab_split="padded:-1e30", supports=dpo)
def areal_dpo(logits, batch):
    """dpo_pair_logratios and dpo_preference_loss behind gather_logprobs, as its engine calls them."""
    logprobs = batch.join_cp(torch.where(batch.predicts, areal_logprobs(logits, batch), 0))
    pairs = torch.ones(len(batch.lengths) // 2, dtype=torch.bool)
    policy, reference, _ = functional.dpo_pair_logratios(
        logprobs, batch.pack.reference_policy_logprobs, batch.cu_seqlens_padded.long(),
        batch.tokens.mask, pairs)
    margin = (policy[:, 0] - policy[:, 1]) - (reference[:, 0] - reference[:, 1])
    beta = batch.objective["reference_policy_kl_penalty"]
    return functional.dpo_preference_loss(margin, beta=beta).mean()


def a_sequence_each(problem):
    if problem.options["microbatches"] > problem.sequences:
        return "its packing needs a sequence for each microbatch"
    return ""


def gather_of_gloo(problem):
    grid = problem.grid
    if problem.device == "cpu" and grid.cp > 1 and grid.tp * grid.dp > 1:
        return "the backward of torch's all_gather on gloo takes no groups beside that of all ranks"
    return ""


def engine_of(bigram, batch, microbatches):
    """Returns a MegatronEngine on the bigram model, without an optimizer."""
    engine = MegatronEngine(TrainEngineConfig(
        experiment_name="", trial_name="", dtype="float32", temperature=batch.temperature,
        mb_spec=MicroBatchSpec(n_mbs=microbatches)))
    model = megatron_bigram.MegatronBigram(bigram)
    model.zero_grad_buffer = lambda: None
    engine.model, engine.device, engine.use_padded_seq = [model], "cpu", False
    engine.process_group_initialized = True
    engine.logger = SimpleNamespace(info=lambda _: None)
    engine.parallel_strategy = ParallelStrategy(
        tensor_parallel_size=batch.tp.size, context_parallel_size=batch.cp.size,
        data_parallel_size=batch.dp.size)
    engine.optimizer = SimpleNamespace(
        zero_grad=lambda: None, get_loss_scale=lambda: torch.tensor(1.0),
        step=lambda: (True, None, None), param_groups=[{"lr": 0.0}])
    return engine


@lossgrid.engine(megatron=True, supports=first(
    nll, equal_shards, a_sequence_each, gather_of_gloo))
def areal_megatron_engine(bigram, batch, evaluate, *, microbatches: Literal[2, 1] = 2,
                          evaluation: Literal["reported", "returned"] = "reported"):
    """LMEngine.train_lm and evaluate_lm on MegatronEngine: its packing, Megatron's schedule, and the
    mean over DP x CP of Megatron's DDP. The loss is that of their statistics, or what eval_batch
    returns."""
    engine = engine_of(bigram, batch, microbatches)
    data = {"input_ids": batch.rows_to_padded(batch.ids_padded),
            "attention_mask": batch.attention_mask,
            "loss_mask": batch.rows_to_padded(batch.tokens.mask)}
    data["loss_mask"][:, 0] = False  # its roll brings it to the end; nothing predicts the first token
    if evaluate and evaluation == "returned":
        data["loss_mask"] = data["loss_mask"].roll(-1, -1)  # as evaluate_lm does
        return engine.eval_batch(data, compute_packed_sft_loss,
                                 lambda x: x["loss_mask"].count_nonzero())
    if evaluate:
        LMEngine(engine).evaluate_lm([data])
        return engine.export_stats()["sft-eval/loss/avg"]
    LMEngine(engine).train_lm([data])
    megatron_bigram.reduce_gradient(bigram, batch, evaluate, batch.dp.size * batch.cp.size)
    return engine.export_stats()["sft/loss/avg"]
