# SPDX-License-Identifier: Apache-2.0
"""Leaves, views of leaves, gradients of the function itself; inputs that change; padding."""
import unittest
from typing import Any, List

import torch

import shared
from fake_host import HostError
from fake_problem import Case

LENGTHS = [5, 8, 1, 3]


class Autograd(unittest.TestCase):
    def run_case(self, case: Case, name: str, **request: Any) -> List[Any]:
        world = shared.world(case.size)
        case.begin(world, name)
        forward = world.ask("forward", grad=True, **request)
        backward = world.ask("backward")
        return [[answer["changed"] for answer in answers] for answers in (forward, backward)]

    def check(self, name: str, entropy: bool = False, vocab: int = 11,
              grid: Any = (1, 1, 1)) -> List[Any]:
        case = Case(LENGTHS, vocab, grid)
        changed = self.run_case(case, name)
        torch.testing.assert_close(case.joined_rows("out.logprobs").double(), case.truth()[0],
                                   rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(case.joined_gradient(), case.gradient(entropy), rtol=1e-5,
                                   atol=1e-5)
        return changed

    def test_nothing_changed(self) -> None:
        self.assertEqual(self.check("plain"), [[[]], [[]]])

    def test_declared_overwriting_is_right(self) -> None:
        self.assertEqual(self.check("in_place"), [[[]], [[]]])

    def test_undeclared_overwriting_is_reported(self) -> None:
        self.assertEqual(self.check("in_place_undeclared"), [[["logits"]], [["logits"]]])

    def test_inputs_are_not_compared_without_protection(self) -> None:
        self.assertEqual(self.run_case(Case(LENGTHS, 11), "in_place_undeclared", protect=False),
                         [[[]], [[]]])

    def test_nonleaf_may_be_changed_in_place(self) -> None:
        self.assertEqual(self.check("scaled_in_place"), [[[]], [[]]])

    def test_a_leaf_may_not(self) -> None:
        with self.assertRaises(HostError) as raised:
            self.check("scaled_leaf")
        self.assertIn("a leaf Variable that requires grad", raised.exception.line)
        self.assertIn("(autograd.py:", raised.exception.line)

    def test_arrays_of_the_batch_are_watched_and_restored(self) -> None:
        for _ in range(2):
            self.assertEqual(self.check("overwrites_labels"),
                             [[["batch.labels", "batch.tokens.ids"]]] * 2)

    def test_arrays_are_restored_within_a_trial(self) -> None:
        case = Case(LENGTHS, 11)
        world = shared.world(1)
        case.begin(world, "overwrites_labels")
        world.ask("forward", grad=True)
        first = case.joined_rows("out.logprobs")
        world.ask("forward", grad=True)
        self.assertTrue(torch.equal(first, case.joined_rows("out.logprobs")))

    def test_own_gradients(self) -> None:
        self.check("own")
        self.check("own_pair", entropy=True)

    def test_own_gradients_refused(self) -> None:
        for name, line in (("own_without_backward", "has to return (outputs, backward)"),
                           ("own_wrong_shape", "for logits, wanted floating point [17, 11]")):
            with self.assertRaises(HostError) as raised:
                self.check(name)
            self.assertEqual(raised.exception.kind, "bad_input")
            self.assertIn(line, raised.exception.line)

    def test_columns_of_padding(self) -> None:
        for name in ("equal_split", "padded_split"):
            case = Case(LENGTHS, 9, (4, 1, 1))  # widths 3, 3, 3, 0
            self.run_case(case, name)
            torch.testing.assert_close(case.joined_rows("out.logprobs").double(), case.truth()[0],
                                       rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(case.joined_gradient(), case.gradient(), rtol=1e-5,
                                       atol=1e-5)
            padding = case.views(3)["grad.logits"]
            self.assertTrue((padding == 0).all(), "gradient of padding")

    def test_columns_of_padding_are_not_given_by_default(self) -> None:
        case = Case(LENGTHS, 9, (4, 1, 1), poison=float("nan"))
        self.run_case(case, "vocab_parallel")
        torch.testing.assert_close(case.joined_gradient(), case.gradient(), rtol=1e-5, atol=1e-5)
        self.assertTrue((case.views(3)["grad.logits"] == 0).all())

    def test_hidden_states(self) -> None:
        case = Case(LENGTHS, 11, hidden=6)
        self.run_case(case, "from_hidden")
        d_logits = case.gradient()
        torch.testing.assert_close(case.views(0)["grad.hidden"].double(),
                                   d_logits @ case.weight.double(), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(case.views(0)["grad.weight"].double(),
                                   d_logits.t() @ case.states.double(), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
