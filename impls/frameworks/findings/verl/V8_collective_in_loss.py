# SPDX-License-Identifier: Apache-2.0
"""verl: the loss of bypass mode talks to all ranks, and fails where nothing is valid."""
import datetime
import os
import tempfile
import time

import support
import torch
import torch.distributed as dist
from support import ranks, show

CORRECTION = {"loss_type": "reinforce", "rollout_is": "token", "rollout_is_threshold": 2.0}


def loss(mask, **more):
    from verl.trainer.ppo.core_algos import compute_policy_loss_bypass_mode
    from verl.workers.config import ActorConfig, PolicyLossConfig
    config = ActorConfig(
        strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1, policy_loss=PolicyLossConfig(
            loss_mode="bypass_mode", rollout_correction={**CORRECTION, **more}))
    config.global_batch_info.update(dp_size=1, batch_num_tokens=8, global_batch_size=2)
    lp = -torch.rand(2, 4)
    return compute_policy_loss_bypass_mode(lp, lp - 0.1, torch.ones(2, 4), mask, config=config)[0]


def run(rank):
    for name, more in (("rollout_is=token", {}),
                       ("token_k1", {"rollout_rs": "token_k1", "rollout_rs_threshold": "0.5_2"})):
        try:
            loss(torch.zeros(2, 4), **more)
        except ValueError as error:
            if rank == 0:
                show(f"a microbatch without valid tokens, {name}", f"ValueError: {error}", 0.0)
    # Ranks with dynamic batches may have two microbatches where others have one; ranks of another
    # pipeline stage have none.
    for number in range(2 - rank):
        loss(torch.ones(2, 4), rollout_is_batch_normalize=True)
        print(f"rank {rank}: loss of microbatch {number} is done", flush=True)


def start(rank):
    dist.destroy_process_group()  # another deadline, so that the hang ends
    dist.init_process_group("gloo", rank=rank, world_size=2, store=dist.FileStore(STORE, 2),
                            timeout=datetime.timedelta(seconds=20))
    try:
        run(rank)
    except RuntimeError as error:
        show(f"rank {rank} hangs", str(error).splitlines()[0][:120], "done")
    if rank == 1:
        time.sleep(25)  # it must not be its end that the other notices
    os._exit(0)


STORE = os.path.join(tempfile.gettempdir(), "lossgrid_V8_store")

if __name__ == "__main__":
    if os.path.exists(STORE):
        os.remove(STORE)
    ranks(2, start)
