# SPDX-License-Identifier: Apache-2.0
"""verl: a teacher is split over CP by the default layout, whatever the student's is."""
from types import SimpleNamespace as Namespace

import support
import torch
import torch.distributed as dist
from support import ranks, show


def nested(x, lengths):
    return torch.nested.nested_tensor(list(x.split(lengths)), layout=torch.jagged)


def run(rank):
    import verl.models.mcore.util as util
    from megatron.core import parallel_state
    from verl.trainer.distillation.megatron.losses import compute_forward_kl_topk
    torch.manual_seed(1)
    lengths = [8, 16, 8]
    student = 2 * torch.randn(32, 16)
    teacher = student.log_softmax(1).topk(4)  # the student is its own teacher: the loss is known
    config = Namespace(distillation_loss=Namespace(log_prob_min_clamp=None))
    for cp in (1, 2):
        parallel_state.initialize_model_parallel(context_parallel_size=cp)
        for layout in ("zigzag", "contiguous"):
            own = parallel_state.get_context_parallel_rank()
            if layout == "contiguous":  # consecutive rows of the whole pack, as util.py documents
                rows = student[32 // cp * own:32 // cp * (own + 1)][None]
            else:
                rows = util.preprocess_thd_engine(nested(student, lengths))[0]
            got = compute_forward_kl_topk(rows, nested(teacher.values, lengths),
                                          nested(teacher.indices, lengths), config, "thd")
            total = got["distillation_losses"].abs().mean()
            dist.all_reduce(total)
            if rank == 0:
                show(f"cp {cp}, student's layout {layout}, teacher equal to the student: mean KL",
                     float(total / 2), 0.0)
        if cp == 1:
            rows = util.preprocess_thd_engine(nested(student, lengths), use_fp8_padding=True)[0]
            try:
                compute_forward_kl_topk(rows, nested(teacher.values, lengths),
                                        nested(teacher.indices, lengths), config, "thd")
            except AssertionError as error:
                if rank == 0:
                    show("student with fp8 padding", f"AssertionError {error}", "a loss")
        parallel_state.destroy_model_parallel()


if __name__ == "__main__":
    ranks(2, run)
