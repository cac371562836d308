# SPDX-License-Identifier: Apache-2.0
"""The text of a scale: every factor that lossgrid prints is one that a declaration may have."""
import itertools
import unittest

from lossgrid.errors import BadInput
from lossgrid.scale import scale_text


def printed(dp: int, cp: int, n_mb: int) -> str:
    """Returns the text of a factor as harness/problem/case/scale_factor.cpp formats it."""
    sizes = (("dp", dp), ("cp", cp), ("n_mb", n_mb))
    above = [name for name, exponent in sizes for _ in range(exponent)]
    below = [name for name, exponent in sizes for _ in range(-exponent)]
    text = "*".join(above) or "1"
    if len(below) > 1:
        return f"{text}/({'*'.join(below)})"
    return f"{text}/{below[0]}" if below else text


class ScaleText(unittest.TestCase):
    def test_takes_every_factor_that_a_hint_offers(self) -> None:
        for exponents in itertools.product(range(-4, 5), repeat=3):
            text = printed(*exponents)
            self.assertEqual(scale_text("f", text), text)

    def test_returns_the_shortest_text(self) -> None:
        for given, text in (("dp * cp", "dp*cp"), ("1*dp", "dp"), ("cp/dp/n_mb", "cp/(dp*n_mb)"),
                            ("dp/(cp/n_mb)", "dp*n_mb/cp"), ("(dp)", "dp"), ("dp/dp", "1")):
            self.assertEqual(scale_text("f", given), text)

    def test_refuses_what_is_no_factor(self) -> None:
        for given in ("", "*", "tp", "dp cp", "dp//cp", "1/", "(dp", "dp)", "2", "dp*dp*dp*dp*dp",
                      2, None):
            with self.assertRaisesRegex(BadInput, "f: scale=.* is not '1' or a product"):
                scale_text("f", given)


if __name__ == "__main__":
    unittest.main()
