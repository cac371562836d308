# SPDX-License-Identifier: Apache-2.0
"""A function that writes down what its batch holds."""
import json

import lossgrid
import torch

NAMES = ("labels", "labels_ignore", "labels_padded", "ids_padded", "mask", "predicts",
         "sample_mask", "attention_mask", "cu_seqlens", "cu_seqlens_padded", "lengths",
         "positions", "sequence", "advantages", "prev_logprobs", "rewards", "pack.labels",
         "pack.mask", "pack.predicts", "pack.real", "pack.sequence", "pack.advantages",
         "tokens.ids", "tokens.mask", "tokens.advantages", "vocab_size", "vocab_start",
         "vocab_end", "temperature", "objective", "denominators", "microbatch", "microbatches",
         "weight_layout", "sequence_parallel")


def _plain(value):
    if isinstance(value, torch.Tensor):
        return {"dtype": str(value.dtype), "shape": list(value.shape), "values": value.tolist()}
    if isinstance(value, lossgrid.Denominators):
        return vars(value)
    return value


@lossgrid.implementation
def tells_views(logits, batch, *, path=""):
    found = {}
    for name in NAMES:
        value = batch
        for part in name.split("."):
            value = getattr(value, part)
        assert value is getattr(batch, name, value) or not isinstance(value, torch.Tensor)
        found[name] = _plain(value)
    for axis in (batch.tp, batch.cp, batch.dp, batch.world):
        assert torch.distributed.get_rank(axis.group) == axis.rank
        assert torch.distributed.get_world_size(axis.group) == axis.size
        found[axis.name] = [axis.rank, axis.size, list(axis.ranks)]
    pack = torch.arange(batch.pack.labels.shape[0]).float()
    found["rows_to_padded"] = batch.rows_to_padded(pack + 1).tolist()
    found["rows_to_padded_shape"] = list(batch.rows_to_padded(torch.zeros(len(pack), 2)).shape)
    found["round_trip"] = torch.equal(batch.padded_to_rows(batch.rows_to_padded(pack)), pack)
    found["split_cp"] = batch.split_cp(pack).tolist()
    found["join_cp"] = torch.equal(batch.join_cp(batch.split_cp(pack)), pack)
    for name in ("labels", "vocab_size", "objective"):
        try:
            setattr(batch, name, 1)
            found["set"] = name
        except AttributeError:
            pass
    batch.objective["kind"] = "a copy"
    assert batch.objective["kind"] != "a copy"
    with open(f"{path}.{batch.world.rank}", "w") as file:
        json.dump(found, file)
    return torch.log_softmax(logits, 1)[:, 0]


@lossgrid.implementation
def keeps(logits, batch):
    """Keeps tensors of the arena beyond their trial."""
    keeps.kept = getattr(keeps, "kept", []) + [logits]
    assert all(float(one.sum()) == float(one.sum()) for one in keeps.kept)
    return torch.log_softmax(logits, 1)[:, 0]


@lossgrid.implementation(megatron=True)
def megatron_declared(logits, batch):
    return _megatron(logits, batch)


@lossgrid.implementation
def megatron_called(logits, batch):
    lossgrid.megatron()
    return _megatron(logits, batch)


def _megatron(logits, batch):
    from megatron.core import parallel_state
    for axis, group in ((batch.tp, parallel_state.get_tensor_model_parallel_group()),
                        (batch.cp, parallel_state.get_context_parallel_group()),
                        (batch.dp, parallel_state.get_data_parallel_group())):
        ranks = [torch.zeros(1) for _ in range(torch.distributed.get_world_size(group))]
        torch.distributed.all_gather(ranks, torch.tensor([1. * batch.world.rank]), group=group)
        assert [int(one) for one in ranks] == list(axis.ranks), (axis.name, ranks, axis.ranks)
    return torch.log_softmax(logits, 1)[:, 0]
