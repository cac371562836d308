# SPDX-License-Identifier: Apache-2.0
"""TRL: loss types of GRPO whose gradient depends on how a batch is cut into microbatches."""
from collections import defaultdict
from types import SimpleNamespace as Namespace

import support
import torch
from support import gradient, show
from trl.trainer.grpo_trainer import GRPOTrainer

lengths = torch.tensor([1, 2, 30, 40])
mask = (torch.arange(40) < lengths[:, None]).long()
lp = (-torch.rand(4, 40)).requires_grad_()
advantages = torch.tensor([1.0, -1.0, 0.5, 1.5])




def part(kind, rows, steps):
    """Returns the gradient of a microbatch by TRL's own _compute_loss."""
    trainer = Namespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (
            lp[rows], torch.zeros_like(lp[rows]), None),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None,
        importance_sampling_level="sequence" if kind == "luspo" else "token", beta=0.0,
        loss_type=kind, epsilon_low=0.2, epsilon_high=0.2, use_vllm=False, num_iterations=1,
        model=Namespace(training=True), current_gradient_accumulation_steps=steps,
        max_completion_length=40, _entropy_bonus_enabled=False, 
        _metrics={"train": defaultdict(list)},
        args=Namespace(
            delta=None, sapo_temperature_pos=1.0, sapo_temperature_neg=1.05,
            steps_per_generation=steps, use_bias_correction_kl=False),
        accelerator=Namespace(num_processes=1, gather=lambda x: x, reduce=lambda x, **_: x,
                              gather_for_metrics=lambda x: x))
    inputs = {"prompt_ids": mask[rows], "prompt_mask": mask[rows], "completion_ids": mask[rows],
              "completion_mask": mask[rows], "advantages": advantages[rows],
              "num_items_in_batch": mask.sum()}
    return gradient(GRPOTrainer._compute_loss(trainer, None, inputs), lp)


for kind in ("dapo", "dr_grpo", "grpo", "sapo", "luspo", "bnpo"):
    whole = part(kind, slice(0, 4), 1)
    cut = part(kind, slice(0, 2), 2) + part(kind, slice(2, 4), 2)
    show(f"{kind}: norm of the change of the gradient by two microbatches, over its norm",
         float((cut - whole).norm() / whole.norm()), 0.0)
