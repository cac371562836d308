# SPDX-License-Identifier: Apache-2.0
"""TRL: the KL estimate of KTO is that of a microbatch."""
from collections import defaultdict
from types import SimpleNamespace as Namespace

import support
import torch
from support import gradient, show
from trl.trainer.kto_trainer import KTOTrainer

torch.manual_seed(1)
lp = (-torch.rand(4, 5)).requires_grad_()
ones = torch.ones(4, 6, dtype=torch.long)
kl = torch.tensor([3.0, 1.0, -2.0, -1.0])  # of the four mismatched completions


def part(rows, kind):
    """Returns the gradient of a microbatch by TRL's own _compute_loss."""
    model = lambda **_: Namespace(  # noqa: E731
        log_probs=lp[rows], entropy=torch.rand(4, 5)[rows], mean_logits=torch.rand(4, 5)[rows])
    trainer = Namespace(
        accelerator=Namespace(device="cpu", gather_for_metrics=lambda x: x), loss_type=kind,
        aux_loss_enabled=False, precompute_ref_logps=True, calculate_KL=kind == "kto", beta=0.5,
        desirable_weight=1.0, undesirable_weight=1.0, model=Namespace(training=True),
        _compute_kl_logps=lambda *_: kl[rows], _metrics={"train": defaultdict(list)},
        _total_train_tokens=0, _tp_size=1)
    inputs = {"input_ids": ones[rows], "attention_mask": ones[rows], "completion_mask": ones[rows],
              "label": torch.tensor([True, False, True, False])[rows],
              "ref_logps": -torch.ones(4)[rows] * 2.5, "ref_KL_logps": torch.zeros(4)[rows]}
    return gradient(KTOTrainer._compute_loss(trainer, model, inputs, False), lp)


for kind in ("kto", "apo_zero_unpaired"):
    whole = part(slice(0, 4), kind)
    cut = (part(slice(0, 2), kind) + part(slice(2, 4), kind)) / 2
    show(f"{kind}: norm of the change of the gradient by two microbatches, over its norm",
         float((cut - whole).norm() / whole.norm()), 0.0)
    uneven = (part(slice(0, 3), kind) + part(slice(3, 4), kind)) / 2
    show("   by microbatches of three and of one",
         float((uneven - whole).norm() / whole.norm()), 0.0)
