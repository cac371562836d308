# SPDX-License-Identifier: Apache-2.0
"""Values and gradients of right functions, on real workers."""
import os
import unittest

import torch

from fake_host import PACKAGE, Host
from fake_problem import Case

VOCAB_PARALLEL = os.path.join(PACKAGE, "examples", "vocab_parallel.py")


class ForwardBackward(unittest.TestCase):
    def setUp(self) -> None:
        self.host = Host()
        self.addCleanup(self.host.close)
        self.host.load(VOCAB_PARALLEL)

    def check(self, case: Case, name: str = "vocab_parallel") -> None:
        world = self.host.world(case.size)
        case.begin(world, name)
        world.ask("forward", grad=True, barrier=True)
        lp, _ = case.truth()
        torch.testing.assert_close(case.joined_rows("out.logprobs").double(), lp, rtol=1e-5,
                                   atol=1e-5)
        world.ask("backward", barrier=True)
        torch.testing.assert_close(case.joined_gradient(), case.gradient(), rtol=1e-5, atol=1e-6)

    def test_one_rank(self) -> None:
        self.check(Case([5, 8, 1, 3], 13))

    def test_tp2_of_an_odd_vocabulary(self) -> None:
        self.check(Case([5, 8, 1, 3], 13, (2, 1, 1), masked=[(0, 2)]))

    def test_tp2cp2(self) -> None:
        self.check(Case([5, 8, 1, 3], 14, (2, 2, 1)))


if __name__ == "__main__":
    unittest.main()
