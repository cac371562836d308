# SPDX-License-Identifier: Apache-2.0
"""Changes of what an engine's ranks should have alike keep the mean over the ranks."""
import unittest
from types import SimpleNamespace
from typing import Any, List

import torch
from lossgrid.change import Change

WHOLE = torch.arange(1.0, 13.0).view(6, 2)


def groups(rank: int) -> Any:
    """Returns the groups of a rank on a grid of dp 2 and cp 2."""
    return SimpleNamespace(tp=SimpleNamespace(rank=0, size=1),
                           cp=SimpleNamespace(rank=rank % 2, size=2),
                           dp=SimpleNamespace(rank=rank // 2, size=2))


def alone() -> Any:
    one = SimpleNamespace(rank=0, size=1)
    return SimpleNamespace(tp=one, cp=one, dp=one)


class ReplicaChanges(unittest.TestCase):
    def gradients(self, kind: str) -> List[torch.Tensor]:
        return [Change({"kind": kind}).gradients({"weight": WHOLE}, groups(rank))["weight"]
                for rank in range(4)]

    def test_the_mean_of_gradients_stays(self) -> None:
        for kind in ("gradient_not_reduced", "gradient_on_first_rank"):
            parts = self.gradients(kind)
            self.assertTrue(torch.equal(sum(parts) / 4, WHOLE), kind)
            self.assertFalse(torch.equal(parts[0], parts[1]), kind)
        self.assertTrue(all(part.any() for part in self.gradients("gradient_not_reduced")))
        self.assertFalse(any(part.any() for part in self.gradients("gradient_on_first_rank")[1:]))

    def test_the_mean_of_losses_stays(self) -> None:
        change = Change({"kind": "loss_on_first_rank"})
        self.assertEqual([change.loss(0.5, groups(rank)) for rank in range(4)], [2.0, 0, 0, 0])
        self.assertEqual(Change(None).loss(0.5, groups(1)), 0.5)

    def test_a_rank_alone_has_nothing_to_change(self) -> None:
        for kind in ("gradient_not_reduced", "gradient_on_first_rank", "loss_on_first_rank"):
            self.assertFalse(Change({"kind": kind}).applies(alone()))
            self.assertTrue(Change({"kind": kind}).applies(groups(0)))
        self.assertTrue(Change({"kind": "roll_labels"}).applies(alone()))


if __name__ == "__main__":
    unittest.main()
