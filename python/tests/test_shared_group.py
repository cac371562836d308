# SPDX-License-Identifier: Apache-2.0
"""Collectives through shared memory beside those of gloo, and sums in the order of the ranks."""
from __future__ import annotations

import unittest
import warnings
from typing import Any, Callable, Dict, List

import torch
import torch.distributed as dist

import ranks
from lossgrid import shared_group

Tensor = torch.Tensor

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int8, torch.uint8)
OPS = ("SUM", "PRODUCT", "MIN", "MAX")
BITS = ("BAND", "BOR", "BXOR")


def given(rank: int, *shape: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> Tensor:
    """Returns small integers, whose sums and products are exact in every type."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(0, 3, shape, generator=generator).to(dtype)


def all_reduces(rank: int) -> Dict[str, Tensor]:
    found = {}
    for dtype in DTYPES:
        ops = OPS if dtype.is_floating_point else OPS + BITS
        for op in ops:
            for shape in ((), (1,), (0,), (7,), (3, 5)):
                tensor = given(rank, *shape, dtype=dtype)
                dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
                found[f"{op} {dtype} {shape}"] = tensor
    return found


def gathers(rank: int) -> Dict[str, Any]:
    size = dist.get_world_size()
    found: Dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        for shape in ((3,), (2, 2), (0,)):
            tensor = given(rank, *shape, dtype=dtype)
            outputs = [torch.empty_like(tensor) for _ in range(size)]
            dist.all_gather(outputs, tensor)
            whole = torch.empty((size * shape[0],) + shape[1:], dtype=dtype)
            dist.all_gather_into_tensor(whole, tensor)
            on_root = [torch.empty_like(tensor) for _ in range(size)] if rank == 1 else None
            dist.gather(tensor, on_root, dst=1)
            found[f"{dtype} {shape}"] = (outputs, whole, on_root)
    return found


def copies(rank: int) -> Dict[str, Any]:
    size = dist.get_world_size()
    found: Dict[str, Any] = {}
    for root in range(size):
        tensor = given(rank, 5, dtype=torch.float32)
        dist.broadcast(tensor, root)
        part = torch.empty(3)
        parts = [given(i, 3, dtype=torch.float32, seed=root) for i in range(size)]
        dist.scatter(part, parts if rank == root else None, src=root)
        summed = given(rank, 4)
        dist.reduce(summed, root)
        found[str(root)] = (tensor, part, summed if rank == root else None)
    return found


def scattered(rank: int) -> Dict[str, Any]:
    size = dist.get_world_size()
    found: Dict[str, Any] = {}
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        output = torch.empty(2, 3)
        dist.reduce_scatter(output, [given(rank, 2, 3, dtype=torch.float32, seed=i)
                                     for i in range(size)], op=op)
        single = torch.empty(3, dtype=torch.int64)
        dist.reduce_scatter_tensor(single, given(rank, 3 * size), op=op)
        found[str(op)] = (output, single)
    return found


def exchanged(rank: int) -> List[Any]:
    size = dist.get_world_size()
    outputs = [torch.empty(2, dtype=torch.int64) for _ in range(size)]
    dist.all_to_all(outputs, [given(rank, 2, seed=i) for i in range(size)])
    equal = torch.empty(2 * size, 3)
    dist.all_to_all_single(equal, given(rank, 2 * size, 3, dtype=torch.float32))
    counts = [rank + to for to in range(size)]  # to rank ``to``, symmetric
    uneven = torch.empty(sum(counts), dtype=torch.int64)
    dist.all_to_all_single(uneven, given(rank, sum(counts)), counts, counts)
    return [outputs, equal, uneven]


def not_contiguous(rank: int) -> List[Tensor]:
    """Returns what collectives made of transposed tensors, and of every second element."""
    size = dist.get_world_size()
    turned = given(rank, 3, 4).t()
    dist.all_reduce(turned)
    line = given(rank, 8)
    dist.broadcast(line[::2], 0)
    outputs = [torch.empty(4, 3, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(outputs, given(rank, 3, 4).t())
    return [turned, line, *outputs]


def wanted_not_contiguous(rank: int, size: int) -> List[Tensor]:
    tensors = [given(i, 3, 4).t() for i in range(size)]
    line = given(rank, 8)
    line[::2] = given(0, 8)[::2]
    return [sum(tensors[1:], tensors[0]), line, *tensors]


def objects(rank: int) -> List[Any]:
    size = dist.get_world_size()
    gathered: List[Any] = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    listed = [[1, 2], "three"] if rank == 1 else [None, None]
    dist.broadcast_object_list(listed, src=1)
    own: List[Any] = [None]
    dist.scatter_object_list(own, [f"to {i}" for i in range(size)] if rank == 0 else None, src=0)
    on_root: List[Any] = [None] * size
    dist.gather_object((rank, rank), on_root if rank == 0 else None, dst=0)
    return [gathered, listed, own, on_root]


def several(rank: int) -> List[Tensor]:
    from torch.distributed.distributed_c10d import _coalescing_manager
    size = dist.get_world_size()
    first, second = given(rank, 3), given(rank, 5, seed=1)
    with _coalescing_manager():
        dist.all_reduce(first)
        dist.all_reduce(second)
    wholes = [torch.empty(2 * size, dtype=torch.int64) for _ in range(2)]
    with _coalescing_manager(async_ops=True) as manager:
        for i, whole in enumerate(wholes):
            dist.all_gather_into_tensor(whole, given(rank, 2, seed=i))
    manager.wait()
    parts = [torch.empty(2, dtype=torch.int64) for _ in range(2)]
    with _coalescing_manager():
        for i, part in enumerate(parts):
            dist.reduce_scatter_tensor(part, given(rank, 2 * size, seed=i))
    return [first, second, *wholes, *parts]


def wanted_several(rank: int, size: int) -> List[Tensor]:
    def summed(*shape: int, seed: int = 0) -> Tensor:
        return torch.stack([given(i, *shape, seed=seed) for i in range(size)]).sum(0)
    return [summed(3), summed(5, seed=1),
            *(torch.cat([given(i, 2, seed=seed) for i in range(size)]) for seed in range(2)),
            *(summed(2 * size, seed=seed)[2 * rank:2 * rank + 2] for seed in range(2))]


def sums_of_floats(rank: int) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        tensor = floats(rank, dtype)
        dist.all_reduce(tensor)
        mean = floats(rank, dtype)
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        found[str(dtype)] = (tensor, mean)
    return found


def floats(rank: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(1000, generator=torch.Generator().manual_seed(rank)).to(dtype)


def extremes(rank: int) -> List[Tensor]:
    zeros = torch.tensor([0.0, -0.0, float("nan"), 1.0, 2.0] * 5)
    other = torch.tensor([-0.0, 0.0, 3.0, float("nan"), float("inf")] * 5)
    found = []
    for op in (dist.ReduceOp.MAX, dist.ReduceOp.MIN):
        tensor = (zeros if rank == 0 else other).clone()
        dist.all_reduce(tensor, op=op)
        found.append(tensor)
    return found


def functional(rank: int) -> List[Tensor]:
    import torch.distributed._functional_collectives as calls
    warnings.simplefilter("ignore")  # newer torch has other names
    size = dist.get_world_size()
    group = dist.group.WORLD
    return [one + 0 for one in (
        calls.all_reduce(given(rank, 6), "sum", group),
        calls.all_gather_tensor(given(rank, 4), 0, group),
        calls.reduce_scatter_tensor(given(rank, 2 * size), "max", 0, group),
        calls.all_to_all_single(given(rank, size), None, None, group),
        calls.broadcast(given(rank, 3), 1, group))]


@unittest.skipUnless(shared_group.available(), "shared memory needs Linux and a newer torch")
class BesideGloo(unittest.TestCase):
    def check(self, function: Callable[..., Any], size: int) -> None:
        """Compares results of ranks that meet through shared memory with those of gloo."""
        found = ranks.run(size, function)
        self.assert_same(found, ranks.run(size, function, backend="gloo"))

    def assert_same(self, found: Any, wanted: Any) -> None:
        self.assertIs(type(found), type(wanted), f"{found!r} {wanted!r}")
        if isinstance(found, Tensor):
            self.assertEqual((found.dtype, found.shape), (wanted.dtype, wanted.shape))
            self.assertTrue(torch.equal(found, wanted), f"{found} {wanted}")
        elif isinstance(found, dict):
            self.assertEqual(list(found), list(wanted))
            for key in found:
                self.assert_same(found[key], wanted[key])
        elif isinstance(found, (list, tuple)):
            self.assertEqual(len(found), len(wanted))
            for one, other in zip(found, wanted):
                self.assert_same(one, other)
        else:
            self.assertEqual(found, wanted)

    def test_all_reduce_of_all_types_and_ops(self) -> None:
        for size in (2, 3):
            self.check(all_reduces, size)

    def test_gathers(self) -> None:
        self.check(gathers, 3)

    def test_broadcast_scatter_and_reduce(self) -> None:
        self.check(copies, 3)

    def test_reduce_scatter(self) -> None:
        self.check(scattered, 3)

    def test_all_to_all(self) -> None:
        self.check(exchanged, 3)

    def test_objects(self) -> None:
        self.check(objects, 3)

    def test_functional_collectives(self) -> None:
        self.check(functional, 2)

    def test_tensors_that_are_not_contiguous(self) -> None:
        found = ranks.run(2, not_contiguous)
        self.assert_same(found, [wanted_not_contiguous(rank, 2) for rank in range(2)])

    def test_coalesced_collectives(self) -> None:
        found = ranks.run(2, several)
        self.assert_same(found, [wanted_several(rank, 2) for rank in range(2)])

    def test_one_rank(self) -> None:
        self.check(all_reduces, 1)
        self.check(exchanged, 1)

    def test_sums_are_in_the_order_of_the_ranks(self) -> None:
        for rank in ranks.run(4, sums_of_floats):
            for dtype in (torch.float32, torch.bfloat16):
                wanted = floats(0, dtype)
                for i in range(1, 4):
                    wanted = wanted + floats(i, dtype)
                self.assert_same(rank[str(dtype)], (wanted, wanted / 4))

    def test_max_keeps_the_first_zero_and_every_nan(self) -> None:
        most, least = ranks.run(2, extremes)[1]
        self.assertEqual(str(most[:5].tolist()), "[0.0, -0.0, nan, nan, inf]")
        self.assertEqual(str(least[:5].tolist()), "[0.0, -0.0, nan, nan, 2.0]")
        for tensor in (most, least):
            self.assertEqual(str(tensor[20:].tolist()), str(tensor[:5].tolist()))


if __name__ == "__main__":
    unittest.main()
