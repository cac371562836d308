# SPDX-License-Identifier: Apache-2.0
"""Everything that a function may return, and one line for what it may not."""
import unittest
from typing import Any

import torch

import shared
from fake_host import HostError
from fake_problem import Case

LENGTHS = [5, 8, 1, 3, 0]


class Returns(unittest.TestCase):
    def run_case(self, case: Case, name: str, rows: str = "shard", backward: bool = True,
                 **request: Any) -> list:
        world = shared.world(case.size)
        case.begin(world, name, rows, **request)
        answers = world.ask("forward", grad=backward)
        if backward:
            world.ask("backward")
        return answers

    def close(self, a: torch.Tensor, b: torch.Tensor) -> None:
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-5, atol=1e-5)

    def check(self, name: str, entropy: bool = False, rows: str = "shard",
              grid: Any = (1, 1, 1)) -> None:
        case = Case(LENGTHS, 11, grid, masked=[(0, 3)])
        self.run_case(case, name, rows)
        lp, h = case.truth()
        for rank in range(case.size):
            views = case.views(rank)
            mine = slice(None) if rows != "shard" else case.own_rows(rank)
            self.close(views["out.logprobs"], lp[mine])
            if entropy:
                self.close(views["out.entropy"], h[mine])
            else:
                self.assertTrue((views["out.entropy"] == 7).all(), "written without being returned")
        self.close(case.joined_gradient(), case.gradient(entropy))

    def test_plain(self) -> None:
        self.check("plain")

    def test_a_leading_dimension_of_one(self) -> None:
        self.check("leading_one")

    def test_nll_is_negated(self) -> None:
        self.check("nll")

    def test_pair_in_order(self) -> None:
        self.check("pair", entropy=True)

    def test_dict_by_name(self) -> None:
        self.check("named", entropy=True)

    def test_shard_under_cp(self) -> None:
        self.check("plain", grid=(1, 2, 1))

    def test_pack(self) -> None:
        self.check("pack", rows="pack", grid=(1, 2, 1))

    def test_padded(self) -> None:
        self.check("padded", entropy=True, rows="padded", grid=(1, 2, 1))

    def test_padded_without_any_row(self) -> None:
        case = Case([0, 0], 11)
        self.run_case(case, "padded", "padded")
        self.assertEqual(list(case.views(0)["out.logprobs"].shape), [0])

    def test_float64_and_bfloat16(self) -> None:
        for dtype, bound in ((torch.float64, 1e-6), (torch.bfloat16, 0.05)):
            case = Case(LENGTHS, 11, dtype=dtype)
            self.run_case(case, "plain")
            lp, _ = case.truth()
            torch.testing.assert_close(case.joined_rows("out.logprobs").double(), lp, rtol=bound,
                                       atol=bound)
            torch.testing.assert_close(case.joined_gradient(), case.gradient(), rtol=bound,
                                       atol=bound)
            self.assertEqual(case.views(0)["grad.logits"].dtype, dtype)

    def test_loss_and_its_gradient(self) -> None:
        case = Case(LENGTHS, 11, masked=[(0, 3)])
        (answer,) = self.run_case(case, "loss")
        lp, _ = case.truth()
        self.assertAlmostEqual(answer["loss"], float(-(lp * case.valid).sum() / case.valid.sum()),
                               places=5)
        self.assertEqual(answer["returned"], ["loss"])
        case.upstream = -case.valid.float() / case.valid.sum()
        self.close(case.joined_gradient(), case.gradient())

    def test_loss_that_json_has_no_number_for(self) -> None:
        (answer,) = self.run_case(Case(LENGTHS, 11), "loss_nan", backward=False)
        self.assertEqual(answer["loss"], "nan")

    def test_evaluation_keeps_no_graph(self) -> None:
        case = Case(LENGTHS, 11)
        world = shared.world(1)
        case.begin(world, "plain")
        world.ask("forward", grad=False)
        with self.assertRaises(HostError) as raised:
            world.ask("backward")
        self.assertEqual(raised.exception.kind, "protocol")

    def test_options(self) -> None:
        case = Case([4], 11)
        self.run_case(case, "keyworded", options={"chunk": 2, "scale": 2, "double": True,
                                                  "note": "abc"})
        expected = case.truth()[0] * 2 + 1203
        self.close(case.joined_rows("out.logprobs")[:3], expected[:3])

    def test_an_entropy_may_have_no_graph(self) -> None:
        case = Case(LENGTHS, 11)
        (answer,) = self.run_case(case, "logged_entropy")
        self.assertEqual(answer["without_graph"], ["entropy"])
        self.close(case.views(0)["out.entropy"], case.truth()[1])
        self.close(case.joined_gradient(), case.gradient())
        (answer,) = self.run_case(case, "logged_entropy", backward=False)
        self.assertEqual(answer["without_graph"], [])  # of an evaluation nothing else is expected
        (answer,) = self.run_case(case, "pair")
        self.assertEqual(answer["without_graph"], [])

    def refused(self, name: str, *parts: str, **request: Any) -> None:
        with self.assertRaises(HostError) as raised:
            self.run_case(Case([5, 7], 11), name, **request)
        self.assertEqual(raised.exception.kind, "bad_input")
        self.assertNotIn("\n", raised.exception.line)
        for part in parts:
            self.assertIn(part, raised.exception.line)

    def test_refusals(self) -> None:
        self.refused("three_dimensions", "three_dimensions returned [1, 12, 11] for logprobs, "
                     'wanted [12]: one number for each row of this rank (rows="shard")')
        self.refused("not_a_tensor", "returned list for logprobs, wanted a tensor [12]")
        self.refused("integers", "returned torch.int64 for logprobs, wanted floating point")
        self.refused("detached", "without a graph")
        self.refused("other_device", "on meta, wanted it on cpu")
        self.refused("one_of_two", "returned one Tensor, wanted (logprobs, entropy)")
        self.refused("misnamed", "a dict of logprob, entropy, wanted (logprobs, entropy)")
        self.refused("loss_by_row", "returned [12] for loss, wanted []: a scalar")
        self.refused("independent", "does not depend on logits")
        self.refused("keyworded", "no option 'chunks'; it has: chunk, scale, note, double",
                     options={"chunks": 2})
        self.refused("keyworded", "option chunk of keyworded wants int, got 2.5",
                     options={"chunk": 2.5})
        self.refused("nobody", "no implementation is called 'nobody'")

    def test_a_misspelt_view_is_told(self) -> None:
        for name, line in (("misspelt", "there is no batch.lables: did you mean batch.labels? "
                                        "(returns.py:"),
                           ("reads_advantages", "there is no batch.advantages: objective 'nll' "
                                                "does not read advantages (returns.py:")):
            with self.assertRaises(HostError) as raised:
                self.run_case(Case([5, 7], 11), name)
            self.assertEqual(raised.exception.kind, "error")
            self.assertIn(line, raised.exception.line)


if __name__ == "__main__":
    unittest.main()
