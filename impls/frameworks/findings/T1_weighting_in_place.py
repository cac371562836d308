# SPDX-License-Identifier: Apache-2.0
"""TRL: the weights of WPO are multiplied into the losses in place, which some losses forbid."""
from types import SimpleNamespace as Namespace

import support
import torch
from support import show
from trl.trainer.dpo_trainer import DPOTrainer

for loss_type in ("sigmoid", "ipo", "hinge", "sft", "sppo_hard", "aot", "apo_zero"):
    torch.manual_seed(1)
    lp = (-torch.rand(4, 5)).requires_grad_()
    squares = -torch.rand(4, 5)
    model = lambda **_: Namespace(log_probs=lp * 1, log_sum_sq_probs=squares)  # noqa: E731
    trainer = Namespace(
        accelerator=Namespace(device="cpu", unwrap_model=lambda m: m, gather_for_metrics=lambda x: x,
                              gather=lambda x: x), aux_loss_enabled=False, ld_alpha=None,
        precompute_ref_logps=True, f_divergence_type="reverse_kl", loss_types=[loss_type],
        loss_weights=[1.0], beta=0.1, label_smoothing=0.0, use_weighting=True, model=Namespace(
            training=True), _metrics={"train": __import__("collections").defaultdict(list)},
        args=Namespace(gradient_checkpointing_kwargs=None, discopop_tau=0.05))
    inputs = {"input_ids": torch.zeros(4, 6, dtype=torch.long),
              "attention_mask": torch.ones(4, 6, dtype=torch.long),
              "completion_mask": torch.ones(4, 6, dtype=torch.long),
              "ref_chosen_logps": -torch.rand(2), "ref_rejected_logps": -torch.rand(2)}
    loss = None

    def keep(value):
        raise StopIteration(value)  # metrics are not needed: the loss is taken before them

    try:
        frame = {}
        import sys

        def trace(frame_, event, arg):
            if frame_.f_code is DPOTrainer._compute_loss.__code__:
                frame["last"] = frame_
                return trace
        sys.settrace(trace)
        try:
            DPOTrainer._compute_loss(trainer, model, inputs, False)
        finally:
            sys.settrace(None)
    except Exception as error:
        found = error
    else:
        found = None
    loss = frame["last"].f_locals.get("loss") if "last" in frame else None
    if isinstance(loss, torch.Tensor):
        try:
            loss.backward()
            show(loss_type, "has a gradient")
            continue
        except RuntimeError as error:
            found = error
    show(loss_type, f"{type(found).__name__}: {str(found)[:110]}", "has a gradient")
