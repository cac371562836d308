# SPDX-License-Identifier: Apache-2.0
"""verl: with CP each microbatch reports floor(n / cp) tokens, which gradients are divided by."""
from types import SimpleNamespace as Namespace

import support
import torch
from support import show
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.engine.megatron.transformer_impl import MegatronEngineWithLMHead as Engine

for cp, counts in ((1, [5, 7, 9, 11]), (4, [5, 7, 9, 11]), (8, [1021, 2043, 4093, 505])):
    engine = Namespace(
        prepare_model_outputs=lambda output, data: {}, get_data_parallel_group=lambda: None,
        tf_config=Namespace(calculate_per_token_loss=True), _routed_num_tokens=lambda data:
        Engine._routed_num_tokens(None, data), engine_config=Namespace(
            dynamic_context_parallel=False, use_remove_padding=True, context_parallel_size=cp))
    loss = tokens = 0
    for count in counts:
        data = TensorDict({"input_ids": torch.zeros(1, count)}, batch_size=[1])
        tu.assign_non_tensor(data, num_micro_batch=len(counts), routed_num_tokens=sum(counts),
                             dp_size=1)
        part, number, _ = Engine.postprocess_micro_batch_func(
            engine, {}, data, False, lambda **_: (torch.tensor(count / sum(counts)), {}))
        loss, tokens = loss + part, tokens + number
    show(f"cp {cp}, tokens {counts}: loss that Megatron makes of a constant loss 1",
         float(loss / (cp * tokens)), 1.0)
