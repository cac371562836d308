# SPDX-License-Identifier: Apache-2.0
"""Megatron-core: a model that gathers its logits gives them to the cross entropy of a shard.

``GPTModel._postprocess`` and the loss are the real ones on a stand-in of a model, whose output
layer is the product with a shard of a weight and Megatron's own gather.
"""
from types import SimpleNamespace as Namespace

import support
import torch
import torch.distributed as dist
import torch.nn.functional as F
from support import gradient, ranks, show


def run(rank):
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.models.common.language_module.language_module import LanguageModule
    from megatron.core.models.gpt.gpt_model import GPTModel
    torch.manual_seed(1)
    hidden, weight = torch.randn(6, 1, 8), torch.randn(16, 8, requires_grad=True)
    labels = torch.randint(16, (1, 6))
    right = F.cross_entropy((hidden @ weight.t())[:, 0], labels[0])
    wanted = gradient(right, weight)
    for tp in (1, 2):
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp)
        own = weight.detach().chunk(tp)[parallel_state.get_tensor_model_parallel_rank()]
        own = own.clone().requires_grad_()
        for gather in (False, True):
            class Head(torch.nn.Module):
                def forward(self, x, weight=None, runtime_gather_output=None):
                    z = x @ own.t()
                    if runtime_gather_output:
                        z = tensor_parallel.gather_from_tensor_model_parallel_region(z)
                    return z, None
            model = Namespace(
                share_embeddings_and_output_weights=False, post_process=True, training=True,
                output_layer=Head(), mtp_process=False, _scale_logits=lambda x: x,
                config=Namespace(mtp_num_layers=None, cross_entropy_loss_fusion=False,
                                 use_mup=False))
            model.compute_language_model_loss = \
                lambda labels, z: LanguageModule.compute_language_model_loss(model, labels, z)
            loss = GPTModel._postprocess(
                model, hidden_states=hidden, input_ids=None, position_ids=None, labels=labels,
                rotary_pos_emb=None, rotary_pos_cos=None, rotary_pos_sin=None,
                mtp_in_postprocess=False, runtime_gather_output=gather).mean()
            try:
                mine = gradient(loss, own).contiguous()
            except RuntimeError as error:
                if rank == 0:
                    show(f"tp {tp}, gathered {gather}", f"RuntimeError: {str(error)[:100]}")
                continue
            shards = [torch.zeros_like(own) for _ in range(tp)]
            dist.all_gather(shards, mine, group=parallel_state.get_tensor_model_parallel_group())
            error = float((torch.cat(shards) - wanted).norm() / wanted.norm())
            if rank == 0:
                show(f"tp {tp}, gathered {gather}: loss", loss.item(), right.item())
                show("   relative error of d weight", error, 0.0)
        parallel_state.destroy_model_parallel()


if __name__ == "__main__":
    ranks(2, run)
