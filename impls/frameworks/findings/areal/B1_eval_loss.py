# SPDX-License-Identifier: Apache-2.0
"""AReaL: Megatron's schedule changes the evaluation loss in place, by cp and the microbatches.

``eval_batch`` of AReaL and the schedule of Megatron-core are the real ones; between them stand the
last lines of AReaL's ``forward_backward_batch`` and a model that returns its input.
"""
from types import SimpleNamespace as Namespace

import support
import torch
from support import ranks, show


def run(rank):
    from areal.engine.megatron_engine import MegatronEngine
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel.schedules import forward_step_calc_loss
    for cp, parts in ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2)):
        parallel_state.initialize_model_parallel(context_parallel_size=cp)
        values = torch.arange(1.0, 9.0)  # the losses of eight tokens: their mean is 4.5
        config = Namespace(timers=None, calculate_per_token_loss=False)

        def forward_backward_batch(batches, process_output, forward_only):
            for values in batches:
                def loss_func(output, inputs=values):
                    return process_output(output, inputs), {}
                forward_step_calc_loss(None, values, loss_func, config, None, False, len(batches),
                                       [])

        class Batches(list):
            def to(self, device):
                return self

        engine = Namespace(
            _ensure_ready=lambda: None, _normalize_batch_input=lambda x: (x, None), device="cpu",
            _prepare_mb_list=lambda x: Batches(x.chunk(parts)),
            forward_backward_batch=forward_backward_batch,
            _compute_logprobs_and_loss=lambda output, inputs, loss_fn, weight_fn, total:
            loss_fn(output) * weight_fn(inputs) / total)
        import areal.engine.megatron_engine as module
        module.compute_total_loss_weight = lambda batches, weight, group: sum(
            weight(x) for x in batches) * parallel_state.get_data_parallel_world_size(
                with_context_parallel=True)
        got = MegatronEngine.eval_batch(engine, values, lambda x: x.mean(), lambda x: float(len(x)))
        if rank == 0:
            show(f"cp {cp}, {parts} microbatches: evaluation loss", float(got), 4.5)
        parallel_state.destroy_model_parallel()


if __name__ == "__main__":
    ranks(2, run)
