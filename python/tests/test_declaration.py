# SPDX-License-Identifier: Apache-2.0
"""Arguments of the decorators: what is allowed, and one line for what is not."""
import unittest
from typing import Any, Callable
from unittest import mock

import lossgrid
from lossgrid import declaration
from lossgrid.errors import BadInput


class Declaring(unittest.TestCase):
    def setUp(self) -> None:
        patch = mock.patch.object(declaration, "_registered", [])
        patch.start()
        self.addCleanup(patch.stop)

    def declared(self, decorate: Callable[[Any], Any], function: Any) -> declaration.Declaration:
        self.assertIs(decorate(function), function)
        return declaration.registered()[-1]

    def refused(self, line: str, function: Any = None, engine: bool = False, **arguments: Any
                ) -> None:
        def f(logits: Any, batch: Any) -> None: ...
        decorator = lossgrid.engine if engine else lossgrid.implementation
        with self.assertRaises(BadInput) as raised:
            decorator(**arguments)(function or f)
        self.assertEqual(str(raised.exception), line)

    def test_bare_and_with_arguments(self) -> None:
        def mine(logits: Any, batch: Any) -> None: ...
        self.assertEqual(self.declared(lossgrid.implementation, mine).name, "mine")
        other = self.declared(lossgrid.implementation(
            name="other", returns=["nll", "entropy"], scale="dp * cp", overwrites="logits",
            gradient="summed_over_cp", rows="padded", vocab_split="padded:-1e30",
            sequence_multiple=4, pack_multiple=8, megatron=True), mine)
        self.assertEqual((other.name, other.returns, other.scale, other.overwrites),
                         ("other", ("nll", "entropy"), "dp*cp", ("logits",)))
        self.assertEqual(other.message()["sequence_multiple"], 4)

    def test_options_with_their_types(self) -> None:
        def mine(logits: Any, batch: Any, *, chunk: int = 4, rate=0.5, name="", on=True): ...
        self.assertEqual(self.declared(lossgrid.implementation, mine).message()["options"],
                         {"chunk": "int", "rate": "float", "name": "str", "on": "bool"})

    def test_words_that_are_not_allowed(self) -> None:
        self.refused("f: inputs='logit' is not one of 'logits', 'hidden'", inputs="logit")
        self.refused("f: rows='own' is not one of 'shard', 'pack', 'padded'", rows="own")
        self.refused("f: gradient='sum' is not one of 'own_part', 'summed_over_cp'",
                     gradient="sum")
        self.refused("f: autograd=True is not one of 'leaf', 'nonleaf', 'own'", autograd=True)
        self.refused("f: vocab_split='even' is not one of 'ceil', 'equal', 'padded:-inf', "
                     "'padded:-1e30'", vocab_split="even")
        self.refused("f: returns='logprob' is not one of 'logprobs', 'nll', 'loss', "
                     "('logprobs', 'entropy'), ('nll', 'entropy')", returns="logprob")
        self.refused("f: returns=('entropy', 'logprobs') is not one of 'logprobs', 'nll', 'loss', "
                     "('logprobs', 'entropy'), ('nll', 'entropy')",
                     returns=("entropy", "logprobs"))
        scale = ("is not '1' or a product of 'dp', 'cp', 'n_mb' and their inverses, each at most 4 "
                 "times ('dp*n_mb', '1/dp', 'cp/(dp*n_mb)')")
        self.refused("f: scale='tp' " + scale, scale="tp")
        self.refused("f: scale='dp/' " + scale, scale="dp/")
        self.refused("f: scale='(dp' " + scale, scale="(dp")
        self.refused("f: scale='dp*dp*dp*dp*dp' " + scale, scale="dp*dp*dp*dp*dp")
        self.refused("f: scale=2 " + scale, scale=2)
        self.refused("f: overwrites='weight' names something else than the inputs: 'logits'",
                     overwrites="weight")
        not_in_range = "is not a whole number from 1 to 65536"
        for wrong in (0, -16, 65537, 2.5, True, "16"):
            self.refused(f"f: sequence_multiple={wrong!r} {not_in_range}", sequence_multiple=wrong)
        self.refused(f"f: pack_multiple=0 {not_in_range}", pack_multiple=0)
        self.refused("f: supports='yes' is no function of the problem", supports="yes")
        self.refused("f: megatron=1 is not True or False", megatron=1)
        self.refused("'a b' is no name of an implementation: letters, digits and _ only; "
                     "@lossgrid.implementation(name=...)", name="a b")
        self.refused("f: rows='pack' has no meaning with returns='loss'", rows="pack",
                     returns="loss")
        self.refused("f: takes='values' has no meaning without returns='loss'", takes="values")
        self.refused("f: vocab_split='equal' has no meaning with inputs='hidden'",
                     function=lambda hidden, weight, batch: 0, name="f", inputs="hidden",
                     vocab_split="equal")

    def test_roundings(self) -> None:
        def mine(hidden: Any, weight: Any, batch: Any) -> None: ...
        one = self.declared(lossgrid.implementation(
            inputs="hidden", returns="loss", rounds=("loss", "logits"),
            chunks=lambda problem: problem.tokens), mine)
        message = one.message()
        self.assertEqual((message["rounds"], message["has_chunks"]), (["loss", "logits"], True))
        problem = lossgrid.Problem(lossgrid.Grid(), vocab=8, tokens=5)
        self.assertEqual(one.chunks_of(problem), 5)
        with self.assertRaisesRegex(BadInput, "^chunks of mine: returned=0 is not a whole number"):
            one.chunks_of(lossgrid.Problem(lossgrid.Grid(), vocab=8))
        self.assertEqual(self.declared(lossgrid.implementation(
            name="other", inputs="hidden", chunks=3), mine).chunks_of(problem), 3)

    def test_roundings_that_mean_nothing(self) -> None:
        self.refused("f: rounds='weight' names something else than 'loss', 'logits', "
                     "'grad_logits', 'grad_weight', 'log_sum_exp', 'temperature', "
                     "'quotient'",
                     rounds="weight")
        self.refused("f: rounds='logits' has no meaning with inputs='logits'", rounds="logits")
        self.refused("f: rounds='loss' has no meaning without returns='loss'", rounds="loss")

        def f(logits: Any, batch: Any) -> Any:
            return logits

        self.assertEqual(self.declared(lossgrid.implementation(rounds="log_sum_exp"), f).rounds,
                         ("log_sum_exp",))
        self.refused("f: chunks has no meaning with inputs='logits'", chunks=2)
        self.refused("f: chunks=0 is not a whole number from 1 to 65536", chunks=0)

    def test_signatures(self) -> None:
        self.refused("f takes 1 positional arguments, wanted f(logits, batch); options are "
                     "keyword-only: def f(..., *, chunk=128)", lambda logits: 0, name="f")
        self.refused("f takes 2 positional arguments, wanted f(hidden, weight, batch); options are "
                     "keyword-only: def f(..., *, chunk=128)", inputs="hidden")
        self.refused("f takes 2 positional arguments, wanted f(model, batch, evaluate); options "
                     "are keyword-only: def f(..., *, chunk=128)", engine=True)
        self.refused("f: option chunk needs a default that is int, float, bool or str",
                     lambda logits, batch, *, chunk: 0, name="f")
        self.refused("f: option chunk needs a default that is int, float, bool or str",
                     lambda logits, batch, *, chunk=None: 0, name="f")


if __name__ == "__main__":
    unittest.main()
