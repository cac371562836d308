# SPDX-License-Identifier: Apache-2.0
"""What a rank holds of an engine's gradient, by its declaration."""
import unittest
from typing import Any, Tuple

import torch
from lossgrid.errors import BadInput
from lossgrid.held import Held, held_gradient
from lossgrid.reported import loss_of, metrics_of

LIKE = torch.zeros(4, 3)
GRADIENT = torch.arange(12.0).view(4, 3)


class HeldGradients(unittest.TestCase):
    def held(self, gradients: str, gradient: Any = GRADIENT, value: Any = 0.5) -> Held:
        return held_gradient("f", gradients, gradient, value, LIKE)

    def refused(self, message: str, *given: Any) -> None:
        with self.assertRaises(BadInput) as caught:
            self.held(*given)
        self.assertIn(message, str(caught.exception))

    def test_replicas_hold_all_of_it(self) -> None:
        held = self.held("replicated")
        self.assertTrue(torch.equal(held.gradient, GRADIENT))
        self.assertIsNone(held.ranges)

    def test_a_slice_is_zero_elsewhere(self) -> None:
        held = self.held("zero", GRADIENT, {"loss": 1, "own": (2, 5)})
        self.assertEqual(held.ranges, [(2, 5)])
        self.assertEqual(held.gradient.view(-1).tolist(), [0, 0, 2, 3, 4] + 7 * [0])

    def test_a_slice_is_named(self) -> None:
        self.refused('returned no "own"', "zero", GRADIENT, 1.0)
        for own in ((0, 13), (3, 2), (-1, 2), (0.0, 2), (1,), 5):
            self.refused('"own" is', "zero", GRADIENT, {"loss": 1, "own": own})

    def test_a_missing_gradient_is_named(self) -> None:
        self.refused("left no gradient", "replicated", None)
        self.refused("left no gradient", "fsdp", None)

    def test_a_plain_tensor_is_no_shard(self) -> None:
        self.refused("fully_shard has not wrapped the model", "fsdp")


class Reported(unittest.TestCase):
    def test_metrics_are_the_numbers_beside_the_loss(self) -> None:
        value = {"loss": torch.tensor(0.5), "own": (0, 1), "tokens": torch.tensor(7),
                 "rate": 0.25, "name": "x", "ok": True, "rows": torch.zeros(2)}
        self.assertEqual(loss_of("f", value), 0.5)
        self.assertEqual(metrics_of(value), {"tokens": 7.0, "rate": 0.25})
        self.assertEqual(metrics_of(0.5), {})

    def test_a_missing_loss_is_named(self) -> None:
        cases: Tuple[Tuple[Any, str], ...] = (
            (None, "no loss on this rank"), ({"loss": None}, "no loss on this rank"),
            ({"a": 1}, 'a dict without "loss": a'), ("x", "returned str"),
            (torch.zeros(2), r"returned [2] for loss"))
        for value, message in cases:
            with self.assertRaises(BadInput) as caught:
                loss_of("f", value)
            self.assertIn(message, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
