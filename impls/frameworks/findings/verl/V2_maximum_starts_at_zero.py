# SPDX-License-Identifier: Apache-2.0
"""verl and SkyRL: the epilogue of the fused kernel takes the maximum of a row from 0 on.

The kernel runs in Triton's interpreter on the statistics that its main loop hands over: maximum and
sum of exponentials of every part of the vocabulary.
"""
import os

os.environ["TRITON_INTERPRET"] = "1"

import support
import torch
from support import show
from skyrl.backends.skyrl_train.distributed.megatron import fused_linear_logprob_triton as skyrl
from verl.utils.kernel import kernels as verl

rows, splits, width = 4, 3, 16
for package in (verl, skyrl):
    for shift in (0.0, -80.0, -90.0, -100.0, -120.0):
        torch.manual_seed(1)
        z = torch.randn(rows, splits, width) + shift
        top = z.amax(2).contiguous()
        e = (z - top[..., None]).exp()
        sums, weighted = e.sum(2).contiguous(), (e * z).sum(2).contiguous()
        target = z[:, 1, 3].contiguous()
        largest, accumulated, mean, entropy, lp, scalar = (torch.zeros(rows) for _ in range(6))
        lp.copy_(target)
        package.efficient_entropy_triton_kernel_epilogue[(1,)](
            top, top.stride(0), top.stride(1), rows, splits, largest, 1, sums, sums.stride(0),
            sums.stride(1), accumulated, 1, weighted, weighted.stride(0), weighted.stride(1), mean,
            1, entropy, 1, lp, 1, scalar, 0)
        want = z.flatten(1).double().log_softmax(1)[:, width + 3]
        h = -(z.flatten(1).double().softmax(1) * z.flatten(1).double().log_softmax(1)).sum(1)
        name = package.__name__.split(".")[0]
        show(f"{name}, all logits shifted by {shift}: log-probability, entropy of the first row",
             (float(lp[0]), float(entropy[0])), (round(float(want[0]), 6), round(float(h[0]), 6)))
