# SPDX-License-Identifier: Apache-2.0
"""SkyRL: logits are divided by the temperature in place, in bfloat16 on FSDP.

``HFModelWrapper.forward`` and Megatron's ``Float16Module`` are the real ones around models that
return given logits.
"""
from types import SimpleNamespace as Namespace

import support
import torch
from support import ranks, show


def run(rank):
    from skyrl.backends.skyrl_train.utils import torch_utils  # noqa: F401 without flash-attn's loss
    support.flash_attn()
    from megatron.core import parallel_state
    from megatron.core.transformer.module import Float16Module
    from skyrl.backends.skyrl_train.workers.model_wrapper import HFModelWrapper
    torch.manual_seed(1)
    logits = (4 * torch.randn(1, 65, 1000)).bfloat16()
    ids = torch.randint(1000, (1, 65))
    for temperature in (1.0, 0.7, 0.6):
        right = (logits.double() / temperature).log_softmax(2)[0, :-1].gather(1, ids[0, 1:, None])
        wrapper = Namespace(
            is_vlm=False, remove_microbatch_padding=False, sequence_parallel_size=1,
            attn_implementation="sdpa", model=lambda *_, **__: {"logits": logits.clone()})
        got = HFModelWrapper.forward(wrapper, ids, 64, torch.ones_like(ids), temperature)
        show(f"FSDP, temperature {temperature}: largest and mean error of a log-probability",
             [round(float(x), 6) for x in ((got[0] - right[:, 0]).abs().max(),
                                           (got[0] - right[:, 0]).mean())])
    parallel_state.initialize_model_parallel()

    class Model(torch.nn.Module):
        config = Namespace(fp16=False, bf16=True, virtual_pipeline_model_parallel_size=None)
        vp_stage = None
        pg_collection = Namespace(pp=parallel_state.get_pipeline_model_parallel_group())

        def forward(self):
            return logits
    wrapped = Float16Module(Model.config, Model())
    show("Megatron: logits that a bfloat16 model returns through Float16Module", wrapped().dtype)


if __name__ == "__main__":
    ranks(1, run)
