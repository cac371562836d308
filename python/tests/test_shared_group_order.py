# SPDX-License-Identifier: Apache-2.0
"""Asynchronous calls through shared memory, send and receive, and groups inside of the world."""
from __future__ import annotations

import time
import unittest
from typing import Any, List

import torch
import torch.distributed as dist

import ranks
from lossgrid import shared_group


def filled(value: float, count: int = 4) -> torch.Tensor:
    return torch.full((count,), float(value))


def waits_in_another_order(rank: int) -> List[float]:
    tensors = [filled(10 * i + rank) for i in range(4)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for i in range(4) if rank == 0 else reversed(range(4)):
        works[i].wait()
    return [float(tensor[0]) for tensor in tensors]


def never_waits(rank: int) -> List[float]:
    """Rank 0 does not wait for its first handle: others go on, and so does its next call. The
    outputs of the first call are written by its own wait alone."""
    tensor, later = filled(rank + 3), filled(1)
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 1:
        work.wait()
    dist.all_reduce(later)
    before = float(tensor[0])
    work.wait()
    return [before, float(tensor[0]), float(later[0])]


def many_without_wait(rank: int) -> float:
    tensors = [filled(i) for i in range(1200)]  # more than there are records
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    works[-1].wait()
    last = float(tensors[-1][0])
    for work in works:
        work.wait()
    return last + float(sum(tensor[0] for tensor in tensors))


def polls(rank: int) -> List[Any]:
    tensor = filled(rank)
    if rank == 1:
        time.sleep(0.2)
    work = dist.all_reduce(tensor, async_op=True)
    first = work.is_completed()
    while not work.is_completed():
        time.sleep(0.001)
    return [first, work.is_success(), float(tensor[0]), float(work.result()[0][0])]


def futures(rank: int) -> List[Any]:
    tensor = filled(rank)
    if rank == 1:
        time.sleep(0.2)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    then = future.then(lambda done: float(done.value()[0][0]) + 1)
    dist.barrier()
    return [then.wait(), float(tensor[0])]


def changed_after_post(rank: int) -> str:
    tensor = filled(rank + 1)
    work = dist.all_gather([torch.empty(4), torch.empty(4)], tensor, async_op=True)
    if rank == 0:
        tensor.zero_()
    work.wait()
    return "complete"


def ring(rank: int) -> List[Any]:
    size = dist.get_world_size()
    got = torch.empty(4)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, filled(rank), (rank + 1) % size),
        dist.P2POp(dist.irecv, got, (rank - 1) % size)])
    for work in works:
        work.wait()
    return got.tolist()


def letters(rank: int) -> Any:
    if rank == 0:
        for i in range(3):
            dist.send(filled(i), 1, tag=i)
        dist.send(filled(7).t(), 1, tag=1)
        dist.send(torch.empty(0), 1, tag=5)
        return None
    found = [torch.empty(4) for _ in range(4)]
    for tag in (2, 1, 0):
        dist.recv(found[tag], 0, tag=tag)
    dist.recv(found[3], 0, tag=1)
    dist.recv(torch.empty(0), 0, tag=5)
    return [float(one[0]) for one in found]


def from_anyone(rank: int) -> Any:
    if rank > 0:
        dist.send(filled(rank), 0)
        return None
    found = []
    for _ in range(2):
        tensor = torch.empty(4)
        source = dist.recv(tensor)
        found.append((source, float(tensor[0])))
    return sorted(found)


def many_letters_both_ways(rank: int) -> float:
    works = [dist.isend(filled(i), 1 - rank) for i in range(300)]
    tensors = [torch.empty(4) for _ in range(300)]
    works += [dist.irecv(tensor, 1 - rank) for tensor in tensors]
    for work in works:
        work.wait()
    return float(sum(i * tensor[0] for i, tensor in enumerate(tensors)))


def another_form(rank: int) -> None:
    if rank == 0:
        dist.send(torch.ones(3), 1)
    else:
        dist.recv(torch.ones(4), 0)


def groups(rank: int) -> List[float]:
    pair, others = dist.new_group([1, 3]), dist.new_group([0, 2])
    own = pair if rank in (1, 3) else others
    tensor, whole = filled(rank), filled(rank)
    work = dist.all_reduce(whole, async_op=True)
    dist.all_reduce(tensor, group=own)
    dist.broadcast(tensor, 3 if own is pair else 0, group=own)
    work.wait()
    return [float(tensor[0]), float(whole[0])]


def grows(rank: int) -> List[float]:
    found = []
    for count in (10, 100_000, 3_000_000, 10):
        tensor = filled(rank + 1, count)
        dist.all_reduce(tensor)
        found += [float(tensor[0]), float(tensor[-1])]
    return found


def keeps_memory(rank: int) -> int:
    pg = dist.group.WORLD
    for _ in range(50):
        dist.all_reduce(filled(rank, 1000))
    before = pg._rendezvous.blocks.end
    for _ in range(500):
        dist.all_reduce(filled(rank, 1000))
    return int(pg._rendezvous.blocks.end - before)


def needs_gradient(rank: int) -> List[Any]:
    leaf = torch.ones(3, requires_grad=True)
    product = leaf * leaf
    before = product._version
    dist.all_reduce(product)
    dist.all_reduce(leaf)
    return [product.detach().tolist(), leaf.tolist(), product._version - before]


def destroyed(rank: int) -> float:
    dist.destroy_process_group(dist.new_group([0, 1]))
    tensor = filled(rank)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return float(tensor[0])


@unittest.skipUnless(shared_group.available(), "shared memory needs Linux and a newer torch")
class Handles(unittest.TestCase):
    def test_ranks_wait_in_different_orders(self) -> None:
        self.assertEqual(ranks.run(2, waits_in_another_order), [[1, 21, 41, 61]] * 2)

    def test_a_handle_that_nobody_waits_for_blocks_nobody(self) -> None:
        self.assertEqual(ranks.run(2, never_waits), [[3, 7, 2], [7, 7, 2]])

    def test_more_calls_than_records(self) -> None:
        self.assertEqual(ranks.run(2, many_without_wait), [2 * 1199 + 2 * 1199 * 600] * 2)

    def test_polls(self) -> None:
        first, second = ranks.run(2, polls)
        self.assertEqual(first, [False, True, 1, 1])
        self.assertEqual(second[1:], [True, 1, 1])

    def test_futures(self) -> None:
        self.assertEqual(ranks.run(2, futures), [[2, 1]] * 2)

    def test_a_payload_that_changes_behind_the_call(self) -> None:
        first, second = ranks.run(2, changed_after_post)
        self.assertRegex(str(first), "an input of all_gather of 4 f32 of 'world' was changed before")
        self.assertEqual(second, "complete")

    def test_autograd_does_not_see_what_a_collective_writes(self) -> None:
        self.assertEqual(ranks.run(2, needs_gradient), [[[2] * 3, [2] * 3, 0]] * 2)


@unittest.skipUnless(shared_group.available(), "shared memory needs Linux and a newer torch")
class Letters(unittest.TestCase):
    def test_a_ring(self) -> None:
        self.assertEqual(ranks.run(3, ring), [[2] * 4, [0] * 4, [1] * 4])

    def test_tags_are_received_in_another_order(self) -> None:
        self.assertEqual(ranks.run(2, letters)[1], [0, 1, 2, 7])

    def test_from_anyone(self) -> None:
        self.assertEqual(ranks.run(3, from_anyone)[0], [(1, 1), (2, 2)])

    def test_more_letters_than_places(self) -> None:
        self.assertEqual(ranks.run(2, many_letters_both_ways),
                         [sum(i * i for i in range(300))] * 2)

    def test_another_form(self) -> None:
        error = ranks.run(2, another_form)[1]
        self.assertEqual(str(error), "rank 0 sends 3 f32, rank 1 receives 4 f32")


@unittest.skipUnless(shared_group.available(), "shared memory needs Linux and a newer torch")
class Groups(unittest.TestCase):
    def test_inside_of_the_world(self) -> None:
        self.assertEqual(ranks.run(4, groups), [[2, 6], [4, 6], [2, 6], [4, 6]])

    def test_a_segment_grows(self) -> None:
        self.assertEqual(ranks.run(2, grows), [[3] * 8] * 2)

    def test_memory_is_used_again(self) -> None:
        self.assertEqual(ranks.run(3, keeps_memory), [0] * 3)

    def test_destroyed(self) -> None:
        self.assertEqual(ranks.run(2, destroyed), [1, 1])


if __name__ == "__main__":
    unittest.main()
