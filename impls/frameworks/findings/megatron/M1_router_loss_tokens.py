# SPDX-License-Identifier: Apache-2.0
"""Megatron-core: with per-token losses the router's losses shrink with TP x CP."""
from types import SimpleNamespace as Namespace

import support
import torch
from megatron.core.transformer.moe.moe_utils import MoEAuxLossAutoScaler, z_loss_func
from megatron.core.transformer.moe.router import TopKRouter
from support import gradient, show

T = 64  # tokens of the batch: one microbatch, one data-parallel rank
torch.manual_seed(1)
whole = torch.randn(T, 8)
wanted = torch.autograd.grad(z_loss_func(whole.requires_grad_(), 0.01), whole)[0].norm()
MoEAuxLossAutoScaler.set_loss_scale(torch.ones(1))
for per_token in (False, True):
    for size in (1, 2, 4, 8):
        router = Namespace(
            training=True, calculate_per_token_loss=per_token, layer_number=1,
            tp_cp_group=Namespace(size=lambda: size), config=Namespace(
                moe_z_loss_coeff=0.01, num_layers=1, mtp_num_layers=None))
        squares = aux = 0.0
        for part in whole.detach().chunk(size):  # of one TP x CP rank
            logits = part.clone().requires_grad_()
            out = TopKRouter.apply_z_loss(router, logits)
            g = gradient((0 * out).sum(), logits)
            # finalize_model_grads divides by the tokens of all ranks
            squares = squares + (g / (T if per_token else 1)).square().sum()
            probs = part.clone().requires_grad_()
            loss = probs.square().sum() / size  # any auxiliary loss, its part of this rank
            out = TopKRouter.attach_and_log_load_balancing_loss(
                router, probs, 1.0, loss, "load_balancing_loss", None)
            g = gradient((0 * out).sum(), probs) / (T if per_token else 1)
            aux = aux + g.square().sum()
        show(f"calculate_per_token_loss={per_token}, tp x cp = {size}: gradient of z-loss, of "
             "auxiliary loss, over the right one",
             (round(float(squares.sqrt() / wanted), 4),
              round(float(aux.sqrt() * size / (2 * whole).norm()), 4)), (1.0, 1.0))
