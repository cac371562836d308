# SPDX-License-Identifier: Apache-2.0
"""TRL: with top_k the importance ratio of a policy that has not moved is the mass that was kept.

``_generate_and_score_completions`` is the real one on a stand-in of a trainer. Log-probabilities of
the sampler are made here as vLLM reports them in the mode that TRL asks for
(``processed_logprobs``): those of the distribution that top_k leaves.
"""
from collections import defaultdict
from types import SimpleNamespace as Namespace

import support
import torch
from support import show
from trl.trainer import grpo_trainer
from trl.trainer.grpo_trainer import GRPOTrainer

torch.manual_seed(1)
rows, width, vocab = 4, 16, 64
logits = 2 * torch.randn(rows, width, vocab)
full = logits.log_softmax(2)


def ratio(top_k):
    """Returns the importance ratios [rows, width] and the mass that the sampler keeps."""
    kept = full.topk(top_k, dim=2)
    mass = kept.values.exp().sum(2)
    drawn = torch.distributions.Categorical(logits=kept.values).sample()
    ids = kept.indices.gather(2, drawn[..., None])[..., 0]
    mine = full.gather(2, ids[..., None])[..., 0]
    sampled = mine - mass.log()
    trainer = Namespace(
        accelerator=Namespace(device="cpu", process_index=0, num_processes=1, gather=lambda x: x),
        model=Namespace(training=True, is_gradient_checkpointing=False),
        mask_truncated_completions=False, pad_to_multiple_of=None,
        _tokenizer=Namespace(pad_token_id=0), tools=None, environments=None,
        environment_factories=None, num_iterations=1,
        args=Namespace(per_device_train_batch_size=rows, steps_per_generation=1,
                       gradient_accumulation_steps=1, gradient_checkpointing_kwargs=None),
        use_vllm=True, vllm_importance_sampling_correction=True, beta=0.0,
        vllm_importance_sampling_mode="token_truncate", vllm_importance_sampling_clip_min=None,
        vllm_importance_sampling_clip_max=3.0, num_generations=rows, reward_funcs=[None],
        reward_func_names=["reward"], reward_weights=torch.ones(1), scale_rewards="group",
        multi_objective_aggregation="sum_then_normalize", log_multimodal=False,
        _metrics={"train": defaultdict(list)}, _pending_extra_logs={}, _pending_metrics={},
        _logs=defaultdict(list, rewards=defaultdict(list)), _is_vlm=False,
        _get_per_token_logps_and_entropies=lambda *_, **__: (mine, None, None),
        _calculate_rewards=lambda *_: torch.arange(float(rows))[:, None],
        _generate=lambda prompts: ([[1]] * rows, ids.tolist(), None, ["a"] * rows,
                                   sampled.tolist(), {}, None, [None] * rows))
    out = GRPOTrainer._generate_and_score_completions(trainer, [{"prompt": "a"}] * rows)
    return out["importance_sampling_ratio"], mass


for top_k in (vocab, 20, 5):
    got, mass = ratio(top_k)
    show(f"top_k {top_k}: importance ratio, least and mean",
         [round(float(got.min()), 4), round(float(got.mean()), 4)], [1.0, 1.0])
    show("   largest difference from the kept mass", float((got - mass).abs().max()))
