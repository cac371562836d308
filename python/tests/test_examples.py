# SPDX-License-Identifier: Apache-2.0
"""Examples are right, and each wrong twin is wrong where it claims to be."""
import math
import unittest
from typing import Any, List, Tuple

import torch

import shared
from fake_problem import Case

LENGTHS = [5, 8, 1, 3, 9]
Grid = Tuple[int, int, int]


def infinite(case: Case) -> Case:
    """Sets every third column to -inf, except where it is a label, and a whole shard."""
    used = set(case.targets.tolist())
    for column in range(case.vocab):
        if column not in used and (column % 3 == 0 or column < 5):
            case.logits[:, column] = float("-inf")
    return case


class _Runs(unittest.TestCase):
    def run_case(self, case: Case, name: str, rows: str = "shard", **request: Any
                 ) -> Tuple[List[Any], List[Any]]:
        world = shared.world(case.size)
        case.begin(world, name, rows, **request)
        forward = world.ask("forward", grad=True)
        backward = world.ask("backward")
        return forward, backward

    def errors(self, case: Case, name: str, rows: str = "shard",
               entropy: bool = False) -> Tuple[float, float]:
        """Returns the largest error of the log-probabilities, relative error of the gradient."""
        forward, _ = self.run_case(case, name, rows)
        lp, h = case.truth()
        if rows == "pack":
            got = case.views(0)["out.logprobs"].double()
            for rank in range(1, case.size):
                self.assertTrue(torch.equal(got.float(), case.views(rank)["out.logprobs"]))
        else:
            got = case.joined_rows("out.logprobs").double()
        worst = (got - lp).abs().max()
        if entropy:
            worst = torch.max(worst, (case.joined_rows("out.entropy").double() - h).abs().max())
        truth = case.gradient(entropy)
        off = (case.joined_gradient() - truth).norm() / truth.norm()
        return tuple(math.inf if math.isnan(float(one)) else float(one)
                     for one in (worst, off))  # type: ignore[return-value]

    def linear_errors(self, name: str, grid: Grid, dtype: torch.dtype, layout: str,
                      chunk: int, tokens: int = 20) -> Tuple[float, float, float]:
        case = Case([tokens, 3], 9, grid, dtype=dtype, hidden=6)
        if layout == "hidden_vocab":
            case.transpose_weight()
        self.run_case(case, name, options={"chunk": chunk})
        truth = case.gradient()
        lp = (case.joined_rows("out.logprobs").double() - case.truth()[0]).abs().max()
        hidden = truth @ case.weight.double()
        off_hidden, off_weight = 0.0, 0.0
        for rank in range(case.size):
            rows = case.own_rows(rank // case.tp % case.cp)
            got = case.views(rank)["grad.hidden"].double()
            off_hidden = max(off_hidden, float((got - hidden[rows]).norm() / hidden.norm()))
            begin, end = case.columns(rank % case.tp)
            weight = truth[rows][:, begin:end].t() @ case.states[rows].double()
            got = case.views(rank)["grad.weight"].double()
            got = got.t() if layout == "hidden_vocab" else got
            off_weight = max(off_weight, float((got[:end - begin] - weight).norm() /
                                               max(float(weight.norm()), 1e-9)))
            self.assertTrue((got[end - begin:] == 0).all())
        return float(lp), off_hidden, off_weight

    def grpo(self, name: str, grid: Grid) -> Tuple[float, float]:
        objective = {"kind": "clipped_pg", "ratio_clip_min": 0.2, "ratio_clip_max": 0.28,
                     "reference_policy_kl_penalty": 0.1, "use_kl_in_reward": False,
                     "kl_input_clamp_value": 1.0, "kl_output_clamp_value": 0.3}
        case = Case([9, 13], 9, grid, masked=[(0, 3)], objective=objective)
        lp, _ = case.truth()
        about = torch.zeros(case.rows)
        about[1:] = lp[:-1].float()
        noise = lambda: torch.randn(case.rows, generator=case.generator)  # noqa: E731
        case.add_token_array("advantages", noise())
        case.add_token_array("prev_logprobs", about + 0.3 * noise())
        case.add_token_array("reference_policy_logprobs", about + noise())
        case.upstream, loss = self.grpo_truth(case)
        forward, _ = self.run_case(case, name)
        worst = max(abs(answer["loss"] - loss) for answer in forward)
        truth = case.gradient()
        return worst, float((case.joined_gradient() - truth).norm() / truth.norm())

    @staticmethod
    def grpo_truth(case: Case) -> Tuple[torch.Tensor, float]:
        """Returns d loss / d logprob by row and the loss, by the formulas of each branch."""
        x = case.truth()[0]
        upstream, total = torch.zeros(case.rows), 0.0
        count = int(case.valid.sum())
        for row in case.valid.nonzero()[:, 0].tolist():
            a, prev, ref = (float(case.extra["rows." + name][row]) for name in (
                "advantages", "prev_logprobs", "reference_policy_logprobs"))
            ratio = math.exp(float(x[row]) - prev)
            outside = (a > 0 and ratio > 1.28) or (a < 0 and ratio < 0.8)
            total += -a * min(max(ratio, 0.8), 1.28) if outside else -a * ratio
            slope = 0.0 if outside else -a * ratio
            r = ref - float(x[row])
            k3 = math.exp(max(min(r, 1), -1)) - 1 - max(min(r, 1), -1)
            total += 0.1 * min(k3, 0.3)
            slope += 0.1 * (0.0 if abs(r) > 1 or k3 > 0.3 else -r)
            upstream[row] = slope / count
        return upstream, total / count

    def engine(self, name: str, grid: Grid, microbatches: int = 2, **request: Any
               ) -> Tuple[float, float, float]:
        """Returns errors of the losses of training and evaluation, and of the gradient."""
        case = Case([9, 5, 1, 8], 7, grid, masked=[(0, 3)])
        case.become_bigram()
        world = shared.world(case.size)
        case.begin(world, name, options={"microbatches": microbatches})
        train = world.ask("forward", grad=True)
        evaluated = world.ask("forward", grad=False)
        lp, _ = case.truth()
        # Every dp rank has the same batch here: the global batch is dp times that.
        loss = case.dp * float(-(lp * case.valid).sum() / case.valid.sum())
        case.upstream = -case.dp * case.valid.float() / case.valid.sum()
        truth = torch.zeros(case.vocab, case.vocab, dtype=torch.float64)
        truth.index_add_(0, case.ids, case.gradient())
        off = 0.0
        for rank in range(case.size):
            begin, end = case.columns(rank % case.tp)
            got = case.views(rank)["grad.weight"].double()
            off = max(off, float((got[:end - begin] - truth.t()[begin:end]).abs().max()))
            self.assertTrue((got[end - begin:] == 0).all())
        return (max(abs(one["loss"] - loss) for one in train),
                max(abs(one["loss"] - loss) for one in evaluated), off)


class Examples(_Runs):
    def right(self, name: str, rows: str = "shard", entropy: bool = False) -> None:
        for grid in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (4, 1, 1)):
            for dtype, bound in ((torch.float64, 1e-6), (torch.float32, 1e-5),
                                 (torch.bfloat16, 5e-3)):
                with self.subTest(name=name, grid=grid, dtype=dtype):
                    case = Case(LENGTHS, 9, grid, dtype=dtype, masked=[(1, 3)],
                                poison=float("nan"))
                    for row in (case.targets < 0).nonzero()[:, 0].tolist():
                        case.logits[row] = float("nan")
                    worst, off = self.errors(case, name, rows, entropy)
                    self.assertLess(worst, 1e-5)
                    self.assertLess(off, bound)

    def test_vocab_parallel(self) -> None:
        self.right("vocab_parallel")

    def test_cp_gather(self) -> None:
        self.right("cp_gather", rows="pack")

    def test_entropy(self) -> None:
        self.right("entropy", entropy=True)

    def test_infinite_and_large_logits(self) -> None:
        for name, entropy in (("vocab_parallel", False), ("entropy", True)):
            worst, off = self.errors(infinite(Case(LENGTHS, 40, (4, 1, 1))), name, entropy=entropy)
            self.assertLess(worst, 1e-5)
            self.assertLess(off, 1e-5)
            worst, off = self.errors(Case(LENGTHS, 40, (2, 1, 1), scale=200), name,
                                     entropy=entropy)
            self.assertLess(worst, 1e-3)
            self.assertLess(off, 1e-4)

    def test_linear(self) -> None:
        for grid in ((1, 1, 1), (2, 2, 1), (4, 1, 1)):
            for layout in ("vocab_hidden", "hidden_vocab"):
                for dtype, bound in ((torch.float64, 1e-6), (torch.float32, 1e-5),
                                     (torch.bfloat16, 5e-3)):
                    with self.subTest(grid=grid, layout=layout, dtype=dtype):
                        lp, hidden, weight = self.linear_errors("linear", grid, dtype, layout, 7)
                        self.assertLess(lp, 1e-5)
                        self.assertLess(hidden, bound)
                        self.assertLess(weight, 1e-5)

    def test_grpo(self) -> None:
        for grid in ((1, 1, 1), (2, 2, 1)):
            loss, gradient = self.grpo("grpo_loss", grid)
            self.assertLess(loss, 1e-5)
            self.assertLess(gradient, 1e-5)

    def test_grpo_supports(self) -> None:
        def reason(**options: Any) -> str:
            problem = Case([4], 9, objective={"kind": "clipped_pg", **options}).problem()
            problem["objective_changed"] = [name for name in options if name != "kind"]
            return str(shared.host().launcher.ask(
                "supports", implementation="grpo_loss", problem=problem)["reason"])
        self.assertEqual(reason(), "")
        self.assertEqual(reason(use_cispo=True), "use_cispo=True is not implemented")
        self.assertEqual(reason(of_a_later_version=1), "of_a_later_version=1 is not implemented")
        self.assertEqual(reason(ratio_clip_max=0.3), "")
        self.assertEqual(reason(kind="nll"), "the loss is clipped_pg")

    def test_engine(self) -> None:
        for grid in ((1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 2, 1)):
            for microbatches in (1, 2, 4):
                with self.subTest(grid=grid, microbatches=microbatches):
                    for error in self.engine("bigram_engine", grid, microbatches):
                        self.assertLess(error, 1e-5)


class WrongTwins(_Runs):
    """Each twin errs by much, and its right one does not (class Examples)."""

    def test_max_not_reduced(self) -> None:
        worst, off = self.errors(Case(LENGTHS, 9, (2, 1, 1)), "max_not_reduced")
        self.assertGreater(worst, 0.1)

    def test_labels_rolled_after_split(self) -> None:
        worst, off = self.errors(Case(LENGTHS, 9, (1, 2, 1)), "labels_rolled_after_split")
        self.assertGreater(worst, 0.1)
        self.assertGreater(off, 0.1)
        worst, off = self.errors(Case([24], 9), "labels_rolled_after_split")
        self.assertLess(worst, 1e-5)

    def test_overwrites_logits(self) -> None:
        case = Case(LENGTHS, 9)
        forward, _ = self.run_case(case, "overwrites_logits")
        self.assertEqual(forward[0]["changed"], ["logits"])
        self.assertLess(float((case.joined_gradient() - case.gradient()).abs().max()), 1e-5)

    def test_gradient_summed_over_cp(self) -> None:
        worst, off = self.errors(Case(LENGTHS, 9, (1, 2, 1)), "gradient_summed_over_cp", "pack")
        self.assertLess(worst, 1e-5)
        self.assertAlmostEqual(off, 1.0, places=4)  # twice the truth

    def test_infinity_times_zero(self) -> None:
        worst, off = self.errors(infinite(Case(LENGTHS, 40, (4, 1, 1))), "infinity_times_zero",
                                 entropy=True)
        self.assertEqual((worst, off), (math.inf, math.inf))
        worst, off = self.errors(Case(LENGTHS, 40, (4, 1, 1)), "infinity_times_zero", entropy=True)
        self.assertLess(off, 1e-5)

    def test_gradients_of_entropies(self) -> None:
        for name in ("entropy_of_shard", "entropy_gradient_left_out", "entropy_gradient_times_tp"):
            with self.subTest(name=name):
                worst, off = self.errors(Case(LENGTHS, 9, (2, 1, 1)), name, entropy=True)
                self.assertLess(worst, 1e-5)
                self.assertGreater(off, 0.05)

    def test_bf16_accumulation(self) -> None:
        lp, hidden, weight = self.linear_errors("bf16_accumulation", (1, 1, 1), torch.bfloat16,
                                                "vocab_hidden", 1, 200)
        self.assertLess(max(lp, hidden), 5e-3)
        self.assertGreater(weight, 5e-3)

    def test_local_denominator(self) -> None:
        loss, gradient = self.grpo("local_denominator", (2, 2, 1))
        self.assertGreater(gradient, 0.1)

    def test_evaluation_loss_scaled(self) -> None:
        train, evaluated, off = self.engine("evaluation_loss_scaled", (1, 2, 1), 4)
        self.assertLess(max(train, off), 1e-5)
        self.assertGreater(evaluated, 0.1)
        self.assertLess(self.engine("evaluation_loss_scaled", (1, 2, 1), 2)[1], 1e-5)


if __name__ == "__main__":
    unittest.main()
