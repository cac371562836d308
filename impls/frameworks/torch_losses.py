# SPDX-License-Identifier: Apache-2.0
"""PyTorch: cross entropies, parallel over the vocabulary and from hidden states."""
import lossgrid
import torch
import torch.nn.functional as F
from adapter_kit import by_id, equal_shards, first, nll, one_cp_rank, one_rank, terms
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import loss_parallel

lossgrid.packages("torch")
own_tokens = first(nll, one_cp_rank, terms("label_smoothing"))


def smoothing(batch):
    return {"label_smoothing": batch.objective["label_smoothing"]}


@lossgrid.implementation(returns="loss", rounds="loss", takes="terms",
                         supports=first(one_rank, own_tokens))
def torch_cross_entropy(logits, batch):
    """F.cross_entropy, summed, over the tokens of the global batch."""
    total = F.cross_entropy(logits, batch.labels_ignore, ignore_index=-100, reduction="sum",
                            **smoothing(batch))
    return total / batch.denominators.valid_tokens


@lossgrid.implementation(returns="nll", supports=one_rank)
def torch_cross_entropy_by_token(logits, batch):
    """F.cross_entropy(reduction="none")."""
    return F.cross_entropy(logits, batch.labels, reduction="none")


@lossgrid.implementation(returns="loss", vocab_split="equal", rounds="loss",
                         supports=first(equal_shards, own_tokens))
def torch_loss_parallel(logits, batch):
    """F.cross_entropy of a DTensor in loss_parallel()."""
    mesh = DeviceMesh.from_group(batch.tp.group, "cpu", mesh_dim_names=("tp",))
    whole = DTensor.from_local(logits, mesh, [Shard(1)], run_check=False)
    labels = DTensor.from_local(batch.labels_ignore, mesh, [Replicate()], run_check=False)
    with loss_parallel():
        total = F.cross_entropy(whole, labels, ignore_index=-100, reduction="sum")
    return total.to_local() / batch.denominators.valid_tokens


if hasattr(F, "linear_cross_entropy"):
    @lossgrid.implementation(inputs="hidden", returns="loss", takes="terms",
                             supports=first(one_rank, own_tokens),
                             rounds=("loss", "logits", "grad_logits", "grad_weight"))
    def torch_linear_cross_entropy(hidden, weight, batch):
        """F.linear_cross_entropy, summed."""
        total = F.linear_cross_entropy(hidden / batch.temperature, by_id(weight, batch),
                                       batch.labels_ignore, ignore_index=-100, reduction="sum",
                                       **smoothing(batch))
        return total / batch.denominators.valid_tokens
