# SPDX-License-Identifier: Apache-2.0
"""Megatron-core: a loss function with three results is a mean of the means of CP ranks."""
from types import SimpleNamespace as Namespace

import support
import torch
import torch.distributed as dist
from support import gradient, ranks, show


def run(rank):
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel.schedules import forward_step_calc_loss
    parallel_state.initialize_model_parallel(context_parallel_size=2)
    tokens = (6, 2)[rank]  # of one sequence on this CP rank
    for per_token in (False, True):
        config = Namespace(timers=None, calculate_per_token_loss=per_token)
        values = torch.ones(tokens, requires_grad=True)

        def loss_func(output):
            return output.sum(), torch.tensor(tokens), {}
        loss, count = forward_step_calc_loss(
            None, values * 1, loss_func, config, None, False, 1, [])
        mine = gradient(loss, values)[0]
        if per_token:  # finalize_model_grads: a sum over CP, divided by all tokens
            total = count.clone()
            dist.all_reduce(total)
            mine = mine / total
        else:  # DistributedDataParallel: the average over DP x CP
            mine = mine / 2
        weights = [torch.zeros(()) for _ in range(2)]
        dist.all_gather(weights, mine)
        if rank == 0:
            show(f"calculate_per_token_loss={per_token}: weight of a token on the rank with 6, "
                 "with 2", [round(float(w), 4) for w in weights], [0.125, 0.125])


if __name__ == "__main__":
    ranks(2, run)
