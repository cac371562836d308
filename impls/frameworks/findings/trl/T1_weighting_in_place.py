# SPDX-License-Identifier: Apache-2.0
"""TRL: the weights of WPO are multiplied into the losses in place, which some losses forbid."""
from collections import defaultdict
from types import SimpleNamespace as Namespace

import support
import torch
from support import show
from trl.trainer.dpo_trainer import DPOTrainer

same = lambda x: x  # noqa: E731
for loss_type in ("sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair",
                  "sppo_hard", "aot", "aot_unpaired", "apo_zero", "apo_down", "discopop", "sft",
                  "sigmoid_norm"):
    torch.manual_seed(1)
    lp = (-torch.rand(4, 5)).requires_grad_()
    statistics = Namespace(log_probs=lp * 1, log_sum_sq_probs=-torch.rand(4, 5),
                           entropy=torch.rand(4, 5), mean_logits=torch.rand(4, 5),
                           is_top1=torch.ones(4, 5, dtype=torch.bool))
    trainer = Namespace(
        accelerator=Namespace(device="cpu", gather_for_metrics=same, gather=same),
        aux_loss_enabled=False, ld_alpha=None, precompute_ref_logps=True, loss_types=[loss_type],
        f_divergence_type="reverse_kl", loss_weights=[1.0], beta=0.1, label_smoothing=0.1,
        use_weighting=True, model=Namespace(training=True), _metrics={"train": defaultdict(list)},
        _total_train_tokens=0, _tp_size=1, args=Namespace(discopop_tau=0.05))
    ones = torch.ones(4, 6, dtype=torch.long)
    inputs = {"input_ids": 0 * ones, "attention_mask": ones, "completion_mask": ones,
              "ref_chosen_logps": -torch.rand(2), "ref_rejected_logps": -torch.rand(2)}
    try:
        DPOTrainer._compute_loss(trainer, lambda **_: statistics, inputs, False).backward()
        show(loss_type, "has a gradient")
    except RuntimeError as error:
        show(loss_type, f"{type(error).__name__}: {str(error)[:100]}", "has a gradient")
