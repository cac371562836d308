# SPDX-License-Identifier: Apache-2.0
"""SkyRL: KL term and entropy bonus are not the mean over tokens that the policy loss is.

The KL term is a mean over sequences, the entropy bonus a mean of microbatches.

Workers are stand-ins around the real ``_forward_backward_micro`` (FSDP) and
``forward_backward_mini_batch`` with Megatron's ``forward_step_calc_loss``.
"""
from types import SimpleNamespace as Namespace

import support
import torch
from support import gradient, ranks, show

PARTS = ((4,), (2, 2), (3, 1))  # sequences by microbatch
LENGTHS = torch.tensor([2, 2, 2, 10])
WIDTH = 10
MASK = (torch.arange(WIDTH) < LENGTHS[:, None]).float()


def config_of(term):
    from skyrl.train.config.config import AlgorithmConfig
    config = AlgorithmConfig(policy_loss_type="regular", kl_estimator_type="k1")
    config.use_kl_loss, config.use_entropy_loss = term == "KL", term == "entropy"
    config.kl_loss_coef = config.entropy_loss_coef = 1.0
    return config


def inputs_of(rows, term):
    scale = (term == "policy") / MASK.sum()  # token_mean, as the trainer scales advantages
    zeros = torch.zeros(len(MASK[rows]), WIDTH)
    return {"advantages": torch.ones_like(zeros) * scale, "loss_mask": MASK[rows],
            "base_action_log_probs": zeros, "num_actions": WIDTH, "action_mask": MASK[rows]}


def fsdp(parts, term):
    """Returns d loss / d log-probability, or / d entropy, of every token."""
    from skyrl.backends.skyrl_train.utils.ppo_utils import ppo_policy_loss
    from skyrl.backends.skyrl_train.workers.worker import PolicyWorkerBase
    values = torch.zeros(4, WIDTH, requires_grad=True)
    losses, start = [], 0
    for size in parts:
        rows = slice(start, start + size)
        start += size
        own = values[rows] if term != "entropy" else torch.zeros(size, WIDTH)
        entropy = torch.nn.functional.pad(values[rows] if term == "entropy" else own, (0, 1))
        class Model:
            train = staticmethod(lambda: None)
            __call__ = staticmethod(lambda *_, **__: (own, {"entropy": entropy}))
        config = config_of(term)
        worker = Namespace(
            model=Model(), cfg=Namespace(algorithm=config), policy_loss_fn=ppo_policy_loss,
            mesh_rank=Namespace(dp_size=1), optimizer=None,
            scheduler=Namespace(get_last_lr=lambda: [0.0]),
            strategy=Namespace(backward=lambda loss, *_: losses.append(loss)))
        batch = Namespace(
            to_device=lambda _: None, sequences=None, action_log_probs=torch.zeros(size, WIDTH),
            attention_mask=None, rollout_logprobs=None, pixel_values=None, image_grid_thw=None,
            **inputs_of(rows, term))
        PolicyWorkerBase._forward_backward_micro(worker, batch, size / 4)
    return gradient(sum(losses), values)


def megatron(parts, term):
    """The same; all rows of logits are equal, so that the norm of a gradient is a weight."""
    from megatron.core.pipeline_parallel.schedules import forward_step_calc_loss
    import skyrl.backends.skyrl_train.workers.megatron.megatron_model_wrapper as module
    from skyrl.backends.skyrl_train.utils.ppo_utils import ppo_policy_loss
    torch.manual_seed(1)
    logits = torch.randn(8).repeat(4, WIDTH + 1, 1).requires_grad_()
    losses = []

    def schedule(forward_step_func, data_iterator, model, num_microbatches, **_):
        for _ in range(num_microbatches):
            output, loss_func = forward_step_func(data_iterator, model[0])
            loss, _ = forward_step_calc_loss(
                model[0], output, loss_func, model[0].config, None, False, num_microbatches, [])
            losses.append(loss)
        return [None] * num_microbatches
    module.get_forward_backward_func = lambda: schedule

    class Model:
        config = Namespace(mtp_num_layers=None, fp8=None, timers=None,
                           calculate_per_token_loss=False)

        def __call__(self, sequences, *_, **__):
            return logits[rows_of.pop(0)] * 1
    rows_of, batches, start = [], [], 0
    ids = torch.zeros(4, WIDTH + 1, dtype=torch.long)
    for size in parts:
        rows = slice(start, start + size)
        start += size
        rows_of.append(rows)
        old = logits.detach().log_softmax(2)[rows, :-1, 0]
        batches.append({"sequences": ids[rows], "attention_mask": ids[rows] + 1,
                        "position_ids": ids[rows], "old_action_log_probs": old,
                        "rollout_action_logprobs": None, "num_microbatches": len(parts),
                        **inputs_of(rows, term)})
    config = config_of(term)
    worker = Namespace(
        actor_module=[Model()], is_vlm=False, remove_microbatch_padding=False, _fused_lm_head=False,
        policy_loss_fn=ppo_policy_loss, cfg=Namespace(
            algorithm=config, logprobs_chunk_size=None, policy=Namespace(megatron_config=Namespace(
                mtp_loss_weight=0.0, mtp_loss_chunk_size=None, mtp_loss_topk=None))))
    module.MegatronModelWrapper.forward_backward_mini_batch(
        worker, batches, WIDTH + 1, 4, temperature=1.0)
    z = logits.detach()[0, 0].clone().requires_grad_()
    p = z.log_softmax(0)
    unit = gradient(p[0] if term != "entropy" else -(p.exp() * p).sum(), z).norm()
    return gradient(sum(losses), logits)[:, :-1].norm(dim=2) / unit


def run(rank):
    support.flash_attn()
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel()
    for name, function in (("FSDP", fsdp), ("Megatron", megatron)):
        for term in ("policy", "KL", "entropy"):
            for parts in PARTS:
                weight = function(parts, term).abs() * 16
                show(f"{name}, {term}, microbatches of {parts} sequences: weight of a token of a "
                     "sequence of 2, of 10, times the tokens",
                     [round(float(weight[0, 0]), 3), round(float(weight[3, 0]), 3)], [1.0, 1.0])


if __name__ == "__main__":
    ranks(1, run)
