# SPDX-License-Identifier: Apache-2.0
"""Members of a group over shared memory that disagree, do not come, or end."""
from __future__ import annotations

import os
import signal
import time
import unittest
from datetime import timedelta
from typing import Any, Callable, List

import torch
import torch.distributed as dist

import ranks
from lossgrid import shared_group


def by_rank(*calls: Callable[[], Any]) -> Callable[[int], Any]:
    return lambda rank: calls[rank]()


def reduced(count: int = 8, dtype: torch.dtype = torch.float32, op: Any = dist.ReduceOp.SUM,
            **more: Any) -> Callable[[], Any]:
    return lambda: dist.all_reduce(torch.ones(count, dtype=dtype), op=op, **more)


def diverges_later(rank: int) -> List[Any]:
    """Calls are numbered, and the group goes on behind a call that differed."""
    dist.barrier()
    dist.all_reduce(torch.ones(2))
    texts = []
    try:
        dist.broadcast(torch.ones(3), 0 if rank == 0 else 1)
    except RuntimeError as error:
        texts.append(str(error))
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    return texts + [float(tensor[0])]


def diverges_in_group(rank: int) -> None:
    group = dist.new_group([1, 2], group_desc="tp")
    if rank == 1:
        dist.barrier(group=group)
    elif rank == 2:
        dist.all_reduce(torch.ones(2, dtype=torch.bfloat16), group=group)


def uneven_exchange(rank: int) -> None:
    sizes = [1, 3] if rank == 0 else [1, 1]
    dist.all_to_all_single(torch.empty(2), torch.ones(sum(sizes)), [1, 1], sizes)


def one_is_late(rank: int) -> None:
    if rank == 0:
        dist.all_reduce(torch.ones(1))
    dist.barrier() if rank == 0 else time.sleep(3)


def made_another_call_before(rank: int) -> None:
    dist.all_reduce(torch.ones(4))
    if rank == 0:
        dist.barrier()
    else:
        time.sleep(3)


def one_makes_no_group(rank: int) -> None:
    if rank == 0:
        dist.new_group([0, 1], timeout=timedelta(seconds=1))
    else:
        time.sleep(3)


def one_is_killed(rank: int) -> Any:
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        return str(error), time.monotonic() - begin
    return None


def receives_from_the_killed(rank: int) -> Any:
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.recv(torch.ones(1), 1)


@unittest.skipUnless(shared_group.available(), "shared memory needs Linux and a newer torch")
class Divergence(unittest.TestCase):
    def texts(self, function: Callable[[int], Any], size: int = 2) -> List[str]:
        return [str(one) for one in ranks.run(size, function)]

    def check(self, first: Callable[[], Any], second: Callable[[], Any], wanted: str) -> None:
        text = "ranks disagree in call #1 of 'world': " + wanted
        self.assertEqual(self.texts(by_rank(first, second)), [text] * 2)

    def test_both_ranks_and_both_calls_are_named(self) -> None:
        for other, text in (
                (reduced(9), "all_reduce sum of 9 f32"),
                (reduced(dtype=torch.int64), "all_reduce sum of 8 i64"),
                (reduced(op=dist.ReduceOp.MAX), "all_reduce max of 8 f32"),
                (dist.barrier, "barrier"),
                (lambda: dist.broadcast(torch.ones(8), 1), "broadcast of 8 f32 from 1"),
                (lambda: dist.all_gather([torch.ones(8)] * 2, torch.ones(8)),
                 "all_gather of 8 f32")):
            with self.subTest(text):
                self.check(reduced(), other,
                           f"rank 0 calls all_reduce sum of 8 f32, rank 1 calls {text}")

    def test_asynchronous_calls(self) -> None:
        self.check(lambda: reduced(async_op=True)().wait(), dist.barrier,
                   "rank 0 calls all_reduce sum of 8 f32, rank 1 calls barrier")

    def test_calls_are_numbered(self) -> None:
        text = ("ranks disagree in call #3 of 'world': rank 0 calls broadcast of 3 f32 from 0, "
                "rank 1 calls broadcast of 3 f32 from 1")
        self.assertEqual(ranks.run(2, diverges_later), [[text, 2]] * 2)

    def test_ranks_are_those_of_the_world(self) -> None:
        text = ("ranks disagree in call #1 of 'tp' (ranks 1, 2): rank 1 calls barrier, rank 2 calls "
                "all_reduce sum of 2 bf16")
        self.assertEqual(self.texts(diverges_in_group, 3), ["None", text, text])

    def test_sizes_of_an_all_to_all(self) -> None:
        text = ("ranks disagree in all_to_all of 'world': rank 0 sends 3 f32 to rank 1, which "
                "receives 1")
        self.assertEqual(self.texts(uneven_exchange), [text] * 2)


@unittest.skipUnless(shared_group.available(), "shared memory needs Linux and a newer torch")
class Missing(unittest.TestCase):
    def test_the_missing_are_named_at_the_deadline(self) -> None:
        error = ranks.run(3, one_is_late, timeout_s=1)[0]
        self.assertEqual(type(error).__name__, "CollectiveTimeout")
        self.assertEqual(str(error), "rank 0 waited 1 s for rank 1, 2 in call #1 of 'world', "
                         "all_reduce sum of 1 f32; rank 1 has made 0 calls; rank 2 has made 0 calls")

    def test_a_group_that_one_member_does_not_make(self) -> None:
        error = ranks.run(2, one_makes_no_group)[0]
        self.assertEqual(str(error), "rank 1 did not join ranks 0, 1 within 1 s")

    def test_the_call_before_is_named(self) -> None:
        error = ranks.run(2, made_another_call_before, timeout_s=1)[0]
        self.assertEqual(str(error), "rank 0 waited 1 s for rank 1 in call #2 of 'world', barrier; "
                         "rank 1 has made 1 calls, the last one all_reduce sum of 4 f32")

    def test_a_killed_member_wakes_the_others(self) -> None:
        found = ranks.run(3, one_is_killed)
        for text, seconds in (found[0], found[2]):
            self.assertRegex(text, r"rank 1 \(process \d+\) has ended; rank \d waits for it in call "
                                   r"#2 of 'world', all_reduce sum of 1 f32")
            self.assertLess(seconds, 10)

    def test_a_killed_sender(self) -> None:
        error = ranks.run(2, receives_from_the_killed)[0]
        self.assertRegex(str(error), r"rank 1 \(process \d+\) has ended; rank 0 waits for it in recv "
                                     r"of 1 f32")


if __name__ == "__main__":
    unittest.main()
