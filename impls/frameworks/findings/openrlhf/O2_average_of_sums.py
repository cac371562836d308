# SPDX-License-Identifier: Apache-2.0
"""OpenRLHF: losses that are parts of a global mean are averaged again for the log."""
import itertools
from collections import defaultdict
from types import SimpleNamespace as Namespace

import support
import torch

support.flash_attn()
import openrlhf.trainer.ray.ppo_actor as module
from openrlhf.models.loss import aggregate_loss
from support import show
from openrlhf.utils import loss_utils

for counts in ((2, 2), (1, 3), (1, 7)):
    masks = [torch.ones(1, count) for count in counts]
    window = loss_utils.iter_grad_accum_global_norm(
        masks, Namespace(ds_device_mesh=None), len(counts), lambda mask: mask)

    def training_step(experience, kl, step, info):
        """Reports a loss that is 1 for every token, as the real one does."""
        mask = experience.action_mask
        return {"metrics": {"policy_loss": aggregate_loss(torch.ones_like(mask), mask, **info)},
                "weights": {"policy_loss": "token"}, "num_action_tokens": int(mask.sum()),
                "num_samples": 1}

    trainer = Namespace(
        args=Namespace(train=Namespace(dynamic_batch_enable=False),
                       ds=Namespace(tensor_parallel_size=1)),
        strategy=Namespace(ring_attn_group=None, accumulated_gradient=len(counts),
                           is_rank_0=lambda: False, all_reduce=lambda x: x, ds_device_mesh=None),
        replay_buffer=Namespace(sample_batch_size=1, collate_fn=None), max_epochs=1,
        dataloader_pin_memory=False, training_step=training_step)
    module.DataLoader = lambda *_, **__: [
        Namespace(action_mask=m, to_device=lambda _: None) for m in masks]
    status = module.ActorPPOTrainer.ppo_train(trainer, 0.0)
    show(f"microbatches of {counts} tokens, a loss of 1 for every token: policy_loss in the log",
         float(status["policy_loss"]), 1.0)
