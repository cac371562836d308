# SPDX-License-Identifier: Apache-2.0
"""NeMo-RL: GSPO's correction weighs with the product over a sequence, not with its mean."""
import math

import support
import torch
from support import gradient, nemo_rl, show

nemo_rl()
from nemo_rl.algorithms.loss import ClippedPGLossConfig, ClippedPGLossFn
from nemo_rl.distributed.batched_data_dict import BatchedDataDict

DIFFERENCE = -0.003  # of the log-probabilities of trainer and sampler, in every token
for length in (10, 100, 1000, 10000):
    found = []
    for correction in (False, True):
        previous = torch.full((1, length + 1), -1.0)
        data = BatchedDataDict(
            token_mask=torch.ones(1, length + 1), sample_mask=torch.ones(1), prev_logprobs=previous,
            generation_logprobs=previous - DIFFERENCE, advantages=torch.ones(1, length + 1))
        lp = previous[:, 1:].clone().requires_grad_()
        loss, metrics = ClippedPGLossFn(ClippedPGLossConfig(
            token_level_loss=False, sequence_level_importance_ratios=True,
            reference_policy_kl_penalty=0, use_importance_sampling_correction=correction))(
            lp, data, torch.tensor(1.0), torch.tensor(float(length)))
        found.append(gradient(loss, lp).norm())
    show(f"{length} tokens: factor of the gradient, sampling_importance_ratio",
         (float(found[1] / found[0]), metrics["sampling_importance_ratio"]),
         f"a mean over tokens would be {math.exp(DIFFERENCE):.4f}")
