# SPDX-License-Identifier: Apache-2.0
"""Every change of a request changes what it names, and nothing else."""
import unittest
from typing import Any, Dict, List, Optional, Tuple

import torch

import shared
from fake_host import HostError, World
from fake_problem import Case
from test_measure import HAS_NEWER_GLOO

Grid = Tuple[int, int, int]


class Changes(unittest.TestCase):
    def shown(self, name: str, change: Optional[Dict[str, Any]], grid: Grid = (2, 2, 1),
              count: int = 2) -> List[List[float]]:
        """Returns the first ``count`` outputs of every rank."""
        case = Case([24], 10, grid)
        world = shared.world(case.size)
        case.begin(world, name)
        answers = world.ask("forward", grad=False, change=change)
        for answer in answers:
            self.assertTrue(answer["applied"])
        return [case.views(rank)["out.logprobs"][:count].tolist() for rank in range(case.size)]

    def test_skip_keeps_the_own_part(self) -> None:
        skip = {"kind": "skip", "phase": "forward", "call": 0}
        self.assertEqual(self.shown("shows_all_reduce", None), [[3, 20], [3, 20], [7, 20], [7, 20]])
        self.assertEqual(self.shown("shows_all_reduce", skip), [[1, 10], [2, 10], [3, 10], [4, 10]])
        self.assertEqual(self.shown("shows_all_gather", None), [[1, 2], [1, 2], [3, 4], [3, 4]])
        self.assertEqual(self.shown("shows_all_gather", skip), [[1, 1], [2, 2], [3, 3], [4, 4]])
        self.assertEqual(self.shown("shows_broadcast", None, count=1), [[1], [1], [3], [3]])
        self.assertEqual(self.shown("shows_broadcast", skip, count=1), [[1], [2], [3], [4]])
        self.assertEqual(self.shown("shows_all_to_all", None, (2, 1, 1)), [[10, 20], [11, 21]])
        self.assertEqual(self.shown("shows_all_to_all", skip, (2, 1, 1)), [[10, 11], [20, 21]])

    def test_wrong_group(self) -> None:
        wrong = {"kind": "wrong_group", "call": 0}
        # cp groups are (0, 2) and (1, 3)
        self.assertEqual(self.shown("shows_all_reduce", wrong),
                         [[4, 20], [6, 20], [4, 20], [6, 20]])
        self.assertEqual(self.shown("shows_max", wrong, count=1), [[3], [4], [3], [4]])
        self.assertEqual(self.shown("shows_all_gather", wrong), [[1, 3], [2, 4], [1, 3], [2, 4]])
        self.assertEqual(self.shown("shows_broadcast", wrong, count=1), [[1], [2], [1], [2]])
        # cp is the rank alone
        self.assertEqual(self.shown("shows_all_reduce", wrong, (2, 1, 1)), [[1, 10], [2, 10]])
        self.assertEqual(self.shown("shows_all_gather", wrong, (2, 1, 1)), [[1, 1], [2, 2]])

    def test_wrong_op(self) -> None:
        wrong = {"kind": "wrong_op", "call": 0}
        self.assertEqual(self.shown("shows_all_reduce", wrong),
                         [[2, 10], [2, 10], [4, 10], [4, 10]])
        self.assertEqual(self.shown("shows_max", None, count=1), [[2], [2], [4], [4]])
        self.assertEqual(self.shown("shows_max", wrong, count=1), [[3], [3], [7], [7]])

    @unittest.skipUnless(HAS_NEWER_GLOO, "gloo of this torch has no reduce-scatter")
    def test_newer_operations(self) -> None:
        two: Grid = (2, 1, 1)
        self.assertEqual(self.shown("shows_newer", None, two, 3), [[1, 2, 30], [1, 2, 32]])
        for kind, call, expected in (("skip", 0, [[1, 1, 30], [2, 2, 32]]),
                                     ("skip", 1, [[1, 2, 10], [1, 2, 21]]),
                                     ("wrong_group", 0, [[1, 1, 30], [2, 2, 32]]),
                                     ("wrong_group", 1, [[1, 2, 10], [1, 2, 21]]),
                                     ("wrong_op", 1, [[1, 2, 20], [1, 2, 21]])):
            with self.subTest(kind=kind, call=call):
                self.assertEqual(self.shown("shows_newer", {"kind": kind, "call": call}, two, 3),
                                 expected)

    @unittest.skipUnless(HAS_NEWER_GLOO, "this torch has no functional collectives")
    def test_functional_operations(self) -> None:
        two: Grid = (2, 1, 1)
        self.assertEqual(self.shown("shows_functional", None, two, 3), [[3, 1, 2], [3, 1, 2]])
        for kind, call, expected in (("skip", 0, [[1, 1, 2], [2, 1, 2]]),
                                     ("skip", 1, [[3, 1, 1], [3, 2, 2]]),
                                     ("wrong_op", 0, [[2, 1, 2], [2, 1, 2]]),
                                     ("wrong_group", 0, [[1, 1, 2], [2, 1, 2]])):
            with self.subTest(kind=kind, call=call):
                self.assertEqual(
                    self.shown("shows_functional", {"kind": kind, "call": call}, two, 3), expected)

    def applied(self, name: str, change: Dict[str, Any], grid: Grid = (2, 1, 1)) -> List[bool]:
        case = Case([12 * grid[1]], 10, grid)
        world = shared.world(case.size)
        case.begin(world, name)
        found = [world.ask("forward", grad=True, change=change)[0]["applied"]]
        found.append(world.ask("backward")[0]["applied"])
        return found

    def test_changes_that_meet_nothing_are_told(self) -> None:
        self.assertEqual(self.applied("shows_all_reduce", {"kind": "skip", "call": 1}),
                         [False, False])
        self.assertEqual(self.applied("shows_all_gather", {"kind": "wrong_op", "call": 0}),
                         [False, False])
        self.assertEqual(self.applied("shows_all_reduce", {"kind": "drop_backward"}),
                         [False, False])
        self.assertEqual(self.applied("differentiable_calls", {"kind": "drop_backward"}),
                         [False, True])
        self.assertEqual(self.applied("differentiable_calls",
                                      {"kind": "skip", "phase": "backward", "call": 0}),
                         [False, True])
        with self.assertRaisesRegex(HostError, "protocol: change 'dance' is not one of skip"):
            self.applied("plain", {"kind": "dance"})

    def gradient(self, change: Optional[Dict[str, Any]], name: str = "vocab_parallel",
                 grid: Grid = (2, 1, 1)) -> Tuple[torch.Tensor, torch.Tensor]:
        case = Case([12], 10, grid)
        world: World = shared.world(case.size)
        case.begin(world, name)
        world.ask("forward", grad=True, change=change)
        world.ask("backward")
        return case.joined_rows("out.logprobs"), case.joined_gradient()

    def test_gradients(self) -> None:
        lp, right = self.gradient(None)
        same, twice = self.gradient({"kind": "gradient_factor", "factor": 2.0})
        self.assertTrue(torch.equal(lp, same) and torch.equal(twice, 2 * right))
        same, half = self.gradient({"kind": "gradient_zero_last_tp"})
        self.assertTrue(torch.equal(lp, same) and torch.equal(half[:, :5], right[:, :5]))
        self.assertTrue((half[:, 5:] == 0).all() and (right[:, 5:] != 0).any())

    def test_the_gradient_of_the_entropy_alone(self) -> None:
        _, right = self.gradient(None, "entropy")
        _, dropped = self.gradient({"kind": "entropy_gradient_factor", "factor": 0.0}, "entropy")
        _, twice = self.gradient({"kind": "entropy_gradient_factor", "factor": 2.0}, "entropy")
        self.assertGreater(float((right - dropped).abs().max()), 0.1)
        torch.testing.assert_close(twice - right, right - dropped, rtol=1e-4, atol=1e-5)
        _, plain = self.gradient(None)
        torch.testing.assert_close(dropped, plain, rtol=1e-4, atol=1e-5)

    def test_a_backward_without_its_collectives(self) -> None:
        _, right = self.gradient(None, "differentiable_calls", (1, 2, 1))
        _, dropped = self.gradient({"kind": "drop_backward"}, "differentiable_calls", (1, 2, 1))
        self.assertGreater(float((right - dropped).abs().max()), 0.1)
        _, skipped = self.gradient({"kind": "skip", "phase": "backward", "call": 0},
                                   "differentiable_calls", (1, 2, 1))
        self.assertTrue(torch.equal(dropped, skipped))

    def test_the_control_changes_nothing(self) -> None:
        for name, grid in (("vocab_parallel", (2, 1, 1)), ("differentiable_calls", (1, 2, 1))):
            right = self.gradient(None, name, grid)
            control = self.gradient({"kind": "unchanged"}, name, grid)
            for found, wanted in zip(control, right):
                self.assertTrue(torch.equal(found, wanted))
        self.assertEqual(self.applied("shows_all_reduce", {"kind": "unchanged"}), [False, False])

    def test_inputs_and_outputs(self) -> None:
        lp, right = self.gradient(None)
        rounded, gradient = self.gradient({"kind": "round_inputs"})
        case = Case([12], 10, (2, 1, 1))
        case.logits = case.logits.to(torch.bfloat16)
        torch.testing.assert_close(rounded.double(), case.truth()[0], rtol=1e-5, atol=1e-5)
        self.assertGreater(float((rounded - lp).abs().max()), 1e-3)
        stale, gradient = self.gradient({"kind": "stale_outputs"})
        self.assertTrue(torch.equal(gradient, right))
        case = Case([12], 10, (2, 1, 1))
        case.logits = case.logits.roll(1, 0)
        torch.testing.assert_close(stale.double(), case.truth()[0], rtol=1e-5, atol=1e-5)

    def test_labels_are_rolled_inside_of_the_shard(self) -> None:
        case = Case([8, 4], 50, (1, 2, 1))
        own = case.own_rows(0)
        labels = case.targets.clamp(min=0)
        rolled = labels.clone()
        ids = case.ids.clone()
        for rank in range(2):
            rows = torch.tensor(case.own_rows(rank))
            rolled[rows] = labels[rows].roll(1)
            ids[rows] = case.ids[rows].roll(1)
        shown = self._batch_shown({"kind": "roll_labels"})
        self.assertEqual(shown, (rolled[own].tolist() + rolled.tolist() + ids.tolist())[:6])
        self.assertNotEqual(shown, self._batch_shown(None))

    def _batch_shown(self, change: Optional[Dict[str, Any]]) -> List[int]:
        case = Case([8, 4], 50, (1, 2, 1))
        world = shared.world(2)
        case.begin(world, "shows_labels")
        world.ask("forward", grad=False, change=change)
        return [int(one) for one in case.views(0)["out.logprobs"].tolist()]

    def test_masks_hold_ones(self) -> None:
        case = Case([8, 4], 50, masked=[(0, 2), (1, 3)])
        world = shared.world(1)
        case.begin(world, "counts_masks")
        counts = []
        for change in (None, {"kind": "ignore_mask"}, None):
            world.ask("forward", grad=False, change=change)
            counts.append(case.views(0)["out.logprobs"][:6].tolist())
        # mask, pack.mask, tokens.mask, sample_mask, labels_ignore, attention_mask
        self.assertEqual(counts[0], [8, 8, 10, 2, 8, 12])
        self.assertEqual(counts[1], [12, 12, 12, 2, 10, 16])
        self.assertEqual(counts[2], counts[0])


if __name__ == "__main__":
    unittest.main()
