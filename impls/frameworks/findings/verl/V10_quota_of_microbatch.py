# SPDX-License-Identifier: Apache-2.0
"""verl: clip_cov and kl_cov choose tokens by microbatch, at least one of each."""
import support
import torch
from support import gradient, show
from verl.trainer.ppo.core_algos import compute_policy_loss_clip_cov, compute_policy_loss_kl_cov
from verl.workers.config import ActorConfig

torch.manual_seed(1)
rows, width = 32, 128  # 4,096 tokens: the default ratio 0.0002 chooses none, or one
old = -3 * torch.rand(rows, width)
lp = (old + 0.01 * torch.randn(rows, width)).requires_grad_()
advantages = 3 * torch.randn(rows, 1).expand(rows, width)
mask = torch.ones(rows, width)
config = ActorConfig(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
config.global_batch_info.update(dp_size=1, batch_num_tokens=rows * width, global_batch_size=rows)
print("defaults:", {k: config.policy_loss.get(k) for k in (
    "clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef")})

for parts in (1, 4, 32):
    dropped = changed = 0
    for p in torch.arange(rows).chunk(parts):
        loss, _ = compute_policy_loss_clip_cov(
            old[p], lp[p], advantages[p], mask[p], "token-mean", config)
        g = gradient(loss, lp)[p]
        inside = (lp[p] - old[p]).exp().sub(1).abs() < 0.19  # not clipped by the ratio
        dropped += int(((g == 0) & inside).sum())
        loss, _ = compute_policy_loss_kl_cov(
            old[p], lp[p], advantages[p], mask[p], "token-mean", config)
        plain = -advantages[p] * (lp[p] - old[p]).exp() / (rows * width)
        changed += int(((gradient(loss, lp)[p] - plain).abs() > 1e-3 / (rows * width)).sum())
    show(f"{parts} microbatches: tokens dropped by clip_cov, penalised by kl_cov",
         (dropped, changed))
different = []
for seed in (1, 2):  # replicas of one batch (SP, TP or CP ranks) with generators of their own
    torch.manual_seed(seed)
    loss, _ = compute_policy_loss_clip_cov(old, lp, advantages, mask, "token-mean", config)
    different.append((gradient(loss, lp) == 0).nonzero().tolist())
show("clip_cov on two ranks with the same batch: tokens dropped", different)
