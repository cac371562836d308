# SPDX-License-Identifier: Apache-2.0
"""Megatron-core and verl: the loss of multi-token prediction where ranks have other counts."""
from types import SimpleNamespace as Namespace

import support
import torch
import torch.nn.functional as F
from support import gradient, show


class Head(torch.nn.Module):
    def forward(self, hidden, weight=None, runtime_gather_output=None):
        return hidden @ torch.eye(8), None


def mtp_gradient(postprocess, mask, per_token):
    """Gradient of the MTP loss by row, of one rank, as it stands before gradients are reduced."""
    head = Head()
    head.sequence_parallel = False
    model = Namespace(
        share_embeddings_and_output_weights=False, post_process=True, training=False, cp_group=None,
        output_layer=head, mtp_process=True, config=Namespace(
            mtp_num_layers=1, calculate_per_token_loss=per_token, mtp_loss_scaling_factor=1.0,
            use_mup=False), _scale_logits=lambda x: x,
        compute_language_model_loss=lambda labels, logits: F.cross_entropy(
            logits.transpose(0, 1).flatten(0, 1), labels.flatten(), reduction="none").view(1, -1))
    torch.manual_seed(1)
    hidden = torch.randn(2 * mask.shape[1], 1, 8, requires_grad=True)
    labels = torch.randint(8, mask.shape)
    out = postprocess(model, hidden_states=hidden, input_ids=None, position_ids=None, labels=labels,
                      rotary_pos_emb=None, rotary_pos_cos=None, rotary_pos_sin=None,
                      mtp_in_postprocess=False, loss_mask=mask.clone())
    return gradient((0 * out).sum(), hidden)[mask.shape[1]:, 0].norm(dim=1)


def run():
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.multi_token_prediction import MTPLossAutoScaler
    from verl.models.mcore.mtp_patch import _megatron_gptmodel_postprocess
    MTPLossAutoScaler.set_loss_scale(torch.ones(1))
    full = torch.ones(1, 8)
    short = torch.zeros(1, 8)
    short[:, :2] = 1  # two tokens of which one has a next one that is trained on
    none = torch.zeros(1, 8)
    none[:, 0] = 1  # the rolled mask is empty
    for name, function in (("megatron-core", GPTModel._postprocess),
                           ("verl", _megatron_gptmodel_postprocess)):
        for per_token in (False, True):
            kind = f"{name}, calculate_per_token_loss={per_token}"
            show(f"{kind}: rolled mask is empty: gradient",
                 float(mtp_gradient(function, none, per_token).max()), 0.0)
            one, two = (mtp_gradient(function, m, per_token) for m in (full, short))
            show(f"{kind}: weight of a token on a rank with 8 tokens, on one with 2",
                 (float((one[0] / mtp_norm(0)).item()), float((two[0] / mtp_norm(0)).item())))


def mtp_norm(row):
    """Norm of the gradient of the cross entropy of a row, without a weight."""
    torch.manual_seed(1)
    hidden = torch.randn(16, 1, 8)
    labels = torch.randint(8, (1, 8))
    z = hidden[8 + row, 0].clone().requires_grad_()
    return gradient(F.cross_entropy(z[None], labels[0, row + 1:row + 2]), z).norm()


run()
