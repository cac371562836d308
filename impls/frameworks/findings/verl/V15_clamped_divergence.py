# SPDX-License-Identifier: Apache-2.0
"""verl: top-k distillation has no gradient where the truncated divergence is negative.

Its mass depends on the backend, and its log-probabilities on the path.
"""
from types import SimpleNamespace as Namespace

import support
import torch
from support import gradient, ranks, show


def nested(x):
    return torch.nested.nested_tensor([x], layout=torch.jagged)


def run(rank):
    import verl.trainer.distillation.losses as losses
    from megatron.core import parallel_state
    from verl.trainer.distillation.fsdp.losses import compute_forward_kl_topk as fsdp
    from verl.trainer.distillation.megatron.losses import compute_forward_kl_topk as megatron
    parallel_state.initialize_model_parallel()
    losses.no_padding_2_padding = lambda x, data: x  # rows are whole here
    torch.manual_seed(1)
    logits = 2 * torch.randn(8, 16)
    teacher = (logits / 2).log_softmax(1).topk(4)  # flatter: the student has more mass on its ids
    for clamp in (None, -2.0):
        config = Namespace(distillation_loss=Namespace(log_prob_min_clamp=clamp, topk=4))
        for name, function in (("FSDP", fsdp), ("Megatron", megatron)):
            z = logits[None].clone().requires_grad_()
            out = function(z, nested(teacher.values), nested(teacher.indices), config, "thd")
            raw = out["distillation_losses"]
            loss, metrics = losses.compute_forward_kl_topk(
                None, config, {k: v for k, v in out.items() if "overlap" not in k},
                {"response_mask": torch.ones(1, 8)})
            rows = gradient(loss.sum(), z)[0].norm(dim=1)
            before = gradient(function(z, nested(teacher.values), nested(teacher.indices), config,
                                       "thd")["distillation_losses"].sum(), z)[0].norm(dim=1)
            negative = raw[0] < 0
            show(f"{name}, clamp {clamp}: rows with a negative divergence", int(negative.sum()))
            show("   of them without a gradient", int((rows[negative] == 0).sum()), 0)
            show("   norm of the gradient of these rows before the clamp",
                 float(before[negative].mean()))
            show("   student_mass", metrics["distillation/student_mass"])
            show("   teacher_mass", metrics["distillation/teacher_mass"])
    from verl.trainer.distillation.fsdp.losses import _chunked_topk_log_probs
    for dtype in (torch.float32, torch.bfloat16):
        z = logits[None].to(dtype)
        want = z.double().log_softmax(2).gather(2, teacher.indices[None])
        error = (_chunked_topk_log_probs(z, teacher.indices[None]) - want).abs().max()
        show(f"by chunks, {dtype}: largest error of a log-probability", float(error), 0.0)


if __name__ == "__main__":
    ranks(1, run)
