# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL: where the weight of the KL overflows, its gradient is NaN."""
import support
import torch
from support import gradient, nemo_rl, show

nemo_rl()
from nemo_rl.algorithms.loss import ClippedPGLossConfig, ClippedPGLossFn
from nemo_rl.distributed.batched_data_dict import BatchedDataDict

for masked in (False, True):
    for gap in (80.0, 89.0):
        lp = torch.tensor([[-1.0, -1.0]], requires_grad=True)
        table = torch.full((1, 3), -1.0)
        sampler = table.clone()
        sampler[0, 2] -= gap
        mask = torch.tensor([[1.0, 1.0, 0.0 if masked else 1.0]])
        data = BatchedDataDict(
            token_mask=mask, sample_mask=torch.ones(1), prev_logprobs=table, advantages=table,
            generation_logprobs=sampler, reference_policy_logprobs=table)
        loss, _ = ClippedPGLossFn(ClippedPGLossConfig(use_on_policy_kl_approximation=True))(
            lp, data, torch.tensor(1.0), torch.tensor(2.0))
        show(f"{'masked' if masked else 'trained'} token, {gap} above the sampler: loss, gradient",
             (float(loss), gradient(loss, lp)[0].tolist()))
