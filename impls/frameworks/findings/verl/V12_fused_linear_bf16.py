# SPDX-License-Identifier: Apache-2.0
"""verl under lossgrid: fused linear log-probabilities add up the gradient of the weight in bf16."""
from typing import Literal

import lossgrid
import support

lossgrid.packages("verl")
from verl.utils.experimental.torch_functional import FusedLinearForPPOFunction


def supports(problem):
    return "" if problem.grid.tp == 1 else "has no tensor parallelism"


@lossgrid.implementation(inputs="hidden", supports=supports,
                         rounds=("logits", "grad_logits", "grad_weight"))
def verl_linear(hidden, weight, batch, *, chunk: Literal[512, 64, 8] = 512):
    if batch.weight_layout == "hidden_vocab":
        weight = weight.t()
    return FusedLinearForPPOFunction.apply(
        hidden, weight, batch.labels, float(batch.temperature), chunk)[0]
