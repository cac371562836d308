# SPDX-License-Identifier: Apache-2.0
"""Time, bytes and collectives of functions for which they are known, exactly."""
import time
import unittest
from typing import Any, Dict, List, Tuple

import torch

import shared
from fake_problem import Case

# rows and columns of the shard on every rank
ROWS, COLUMNS = 12, 8
MATRIX, VECTOR = 4 * ROWS * COLUMNS, 4 * ROWS
HAS_NEWER_GLOO = hasattr(torch.distributed.ProcessGroup, "unbox")


def case_on(grid: Tuple[int, int, int]) -> Case:
    return Case([ROWS * grid[1]], COLUMNS * grid[0], grid)


class Measured(unittest.TestCase):
    def measured(self, name: str, grid: Tuple[int, int, int] = (1, 1, 1),
                 **request: Any) -> List[List[Dict[str, Any]]]:
        """Returns what was measured: [forward, backward][rank]."""
        case = case_on(grid)
        world = shared.world(case.size)
        case.begin(world, name)
        answers = [world.ask("forward", grad=True, **request), world.ask("backward", **request)]
        return [[one["measured"] for one in phase] for phase in answers]


class Calls(Measured):
    def calls(self, name: str, grid: Tuple[int, int, int]) -> List[List[Any]]:
        phases = self.measured(name, grid, trace=True)
        found = []
        for phase in phases:
            found.append([(one["group"], one["op"], one["reduce"], one["bytes"])
                          for one in phase[0]["calls"]])
            for rank in phase[1:]:
                self.assertEqual(rank["calls"], phase[0]["calls"])
        return found

    def test_no_calls(self) -> None:
        forward, backward = self.measured("no_calls", trace=True)
        self.assertEqual((forward[0]["calls"], forward[0]["collectives"]), ([], []))

    def test_not_asked_for(self) -> None:
        forward, backward = self.measured("common_calls", (2, 2, 1))
        for one in forward + backward:
            self.assertEqual((one["calls"], one["collectives"], one["peak_bytes"]),
                             (None, None, None))

    def test_common_calls(self) -> None:
        forward, backward = self.calls("common_calls", (2, 2, 1))
        self.assertEqual(forward, [
            ("tp", "all_reduce", "max", 20), ("world", "all_reduce", "sum", 24),
            ("world", "all_reduce", "sum", 8), ("tp", "all_gather", None, 20),
            ("world", "broadcast", None, 14), ("cp", "all_reduce", "sum", 4),
            ("world", "reduce", "min", 16), ("world", "barrier", None, 0)])
        self.assertEqual(backward, [("dp", "all_reduce", "sum", 20)])

    def test_sums_by_group_and_operation(self) -> None:
        forward, _ = self.measured("common_calls", (2, 2, 1), trace=True)
        self.assertEqual(forward[0]["collectives"][:2], [
            {"group": "tp", "op": "all_reduce", "calls": 1, "bytes": 20},
            {"group": "world", "op": "all_reduce", "calls": 2, "bytes": 32}])

    @unittest.skipUnless(HAS_NEWER_GLOO, "gloo of this torch has no reduce-scatter")
    def test_newer_calls(self) -> None:
        forward, backward = self.calls("newer_calls", (2, 1, 1))
        self.assertEqual(forward, [
            ("tp", "all_gather", None, 16), ("tp", "reduce_scatter", "sum", 24),
            ("tp", "reduce_scatter", "max", 24), ("tp", "all_to_all", None, 16)])
        self.assertEqual(backward, [])

    def test_all_to_all_single(self) -> None:
        self.assertEqual(self.calls("all_to_all_single", (2, 1, 1))[0],
                         [("tp", "all_to_all", None, 16)])

    @unittest.skipUnless(HAS_NEWER_GLOO, "this torch has no functional collectives")
    def test_functional_calls(self) -> None:
        self.assertEqual(self.calls("functional_calls", (2, 1, 1))[0], [
            ("tp", "all_reduce", "sum", 24), ("tp", "all_gather", None, 16),
            ("tp", "reduce_scatter", "max", 16)])

    def test_differentiable_calls_in_the_backward(self) -> None:
        forward, backward = self.calls("differentiable_calls", (2, 2, 1))
        self.assertEqual(forward, [("world", "all_reduce", "sum", VECTOR)])
        self.assertEqual(backward, [("world", "all_reduce", "sum", VECTOR)])

    def test_groups_of_the_user_are_named_by_their_ranks(self) -> None:
        world = shared.host().world(2)
        case = case_on((2, 1, 1))
        case.begin(world, "own_group")
        answers = world.ask("forward", grad=False, trace=True)
        self.assertEqual(answers[0]["measured"]["calls"],
                         [{"group": "tp", "op": "all_reduce", "reduce": "sum", "bytes": 4}])

    def test_join_cp_is_one_all_gather_without_a_backward_call(self) -> None:
        self.assertEqual(self.calls("joins", (1, 2, 1)),
                         [[("cp", "all_gather", None, VECTOR)], []])

    def test_vocab_parallel(self) -> None:
        forward, backward = self.calls("vocab_parallel", (2, 1, 1))
        self.assertEqual(forward, [("tp", "all_reduce", "max", VECTOR)] +
                         [("tp", "all_reduce", "sum", VECTOR)] * 2)
        self.assertEqual(backward, [])


class Memory(Measured):
    def peaks(self, name: str) -> List[int]:
        phases = self.measured(name, memory=True)
        return [phase[0]["peak_bytes"] for phase in phases]

    def test_peak_and_not_sum(self) -> None:
        self.assertEqual(self.peaks("holds_two")[0], 2 * MATRIX)

    def test_views_and_changes_in_place_hold_nothing(self) -> None:
        self.assertEqual(self.peaks("views_and_in_place")[0], MATRIX + 8 * ROWS)

    def test_what_the_graph_holds_belongs_to_the_forward(self) -> None:
        # forward: saved, and the output. backward: dz beside it, then dz + 1 where saved was
        # (both are freed or kept alike): the peak is dz and what replaced the saved tensor.
        self.assertEqual(self.peaks("saves"), [MATRIX + VECTOR, MATRIX])

    def test_a_tensor_that_only_the_graph_holds_is_held(self) -> None:
        # exp and its sum; the backward makes the gradient (expand makes no bytes).
        self.assertEqual(self.peaks("saved_by_autograd"), [MATRIX + VECTOR, MATRIX])

    def test_a_second_trial_counts_the_same(self) -> None:
        self.assertEqual(self.peaks("saves"), self.peaks("saves"))

    def test_trace_and_memory_together(self) -> None:
        case = case_on((2, 1, 1))
        world = shared.world(2)
        case.begin(world, "vocab_parallel")
        alone = world.ask("forward", grad=False, memory=True)[0]["measured"]["peak_bytes"]
        both = world.ask("forward", grad=False, memory=True, trace=True)[0]["measured"]
        # A collective that has ended may hold its tensor for a moment.
        self.assertAlmostEqual(both["peak_bytes"], alone, delta=VECTOR)
        self.assertEqual(len(both["calls"]), 3)


class Time(Measured):
    def test_time_of_the_code_alone(self) -> None:
        case = Case([5], 11)
        world = shared.world(1)
        case.begin(world, "sleeps", options={"forward_ms": 30, "backward_ms": 60})
        begin = time.perf_counter_ns()
        forward = world.ask("forward", grad=True)[0]["measured"]["time_ns"]
        whole = time.perf_counter_ns() - begin
        self.assertGreaterEqual(forward, 30e6)
        self.assertLess(forward, whole)
        self.assertGreaterEqual(world.ask("backward")[0]["measured"]["time_ns"], 60e6)

    def test_a_worker_imports_next_to_nothing(self) -> None:
        world = shared.host().world(1)
        case = Case([5], 11)
        case.begin(world, "tells_imports")
        for _ in range(2):
            world.ask("forward", grad=True, memory=True, trace=True)
            world.ask("backward", memory=True, trace=True)
        first, second = (int(line) for line in world.workers[0].printed().split())
        self.assertLess(second - first, 20)

    def test_views_that_are_made_are_not_counted(self) -> None:
        case = Case([5], 11)
        world = shared.world(1)
        case.begin(world, "slow_view")
        forward = world.ask("forward", grad=False)[0]["measured"]["time_ns"]
        self.assertLess(forward, 200e6)

    def test_barrier(self) -> None:
        case = Case([5, 6], 11, (1, 2, 1))
        world = shared.world(2)
        case.begin(world, "late_start")
        for worker in world.workers:
            if worker.rank == 1:
                time.sleep(0.3)
            worker.send("forward", grad=False, barrier=True)
        answers = world.receive()
        self.assertLess(answers[0]["measured"]["time_ns"], 200e6)


if __name__ == "__main__":
    unittest.main()
