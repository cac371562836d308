# SPDX-License-Identifier: Apache-2.0
"""Options: their types, the values that an annotation offers, and one line for what is wrong."""
import typing
import unittest
from typing import Any, Callable, Literal

from lossgrid.errors import BadInput
from lossgrid.options import Options, options_of

POSITIONAL = ("logits", "batch")


def read(function: Callable[..., Any]) -> Options:
    return options_of("f", function, POSITIONAL)


class Offers(unittest.TestCase):
    def refused(self, line: str, function: Callable[..., Any]) -> None:
        with self.assertRaises(BadInput) as raised:
            read(function)
        self.assertEqual(str(raised.exception), line)

    def test_values_of_an_annotation_with_the_default_first(self) -> None:
        def f(logits: Any, batch: Any, *, chunk: Literal[1, 7, 64] = 64,
              mode: typing.Literal["fast", "exact"] = "fast", flag: Literal[False, True] = True,
              one: Literal[3] = 3, free: int = 4) -> None: ...
        message = read(f).message()
        self.assertEqual(message["offers"], {"chunk": [64, 1, 7], "mode": ["fast", "exact"],
                                             "flag": [True, False], "one": [3]})
        self.assertEqual(message["options"], {"chunk": "int", "mode": "str", "flag": "bool",
                                              "one": "int", "free": "int"})

    def test_annotations_that_are_texts(self) -> None:
        def f(logits: "Nowhere", batch: Any, *,  # type: ignore[name-defined]  # noqa: F821
              chunk: "Literal[1, 64]" = 64, other: "Nowhere" = 3) -> None: ...
        self.assertEqual(read(f).offers, {"chunk": (64, 1)})

        def g(logits: Any, batch: Any, *, chunk: "typing.Literals[1, 2]" = 1) -> None: ...
        with self.assertRaisesRegex(BadInput, "^f: the annotation 'typing.Literals.*' of option "
                                              "chunk cannot be read: AttributeError: "):
            read(g)

    def test_values_that_cannot_be(self) -> None:
        def default(logits: Any, batch: Any, *, chunk: Literal[1, 7] = 64) -> None: ...
        self.refused("f: option chunk has the default 64, which is not one that it offers: 1, 7",
                     default)

        def types(logits: Any, batch: Any, *, chunk: Literal[1, True, "a"] = 1) -> None: ...
        self.refused("f: option chunk offers True, and its default is 1: they are of one type",
                     types)

        def words(logits: Any, batch: Any, *, mode: Literal["a", "b,c"] = "a") -> None: ...
        self.refused("f: option mode offers 'b,c': --impl f:mode=... takes no space, comma or "
                     "colon", words)

    def test_given_values(self) -> None:
        def f(logits: Any, batch: Any, *, chunk: Literal[1, 7, 64] = 64, rate: float = 0.5
              ) -> None: ...
        options = read(f)
        self.assertEqual(options.given("f", {"chunk": 7, "rate": 2}), {"chunk": 7, "rate": 2.0})
        for name, value, line in (
                ("chunk", 3, "option chunk of f offers 64, 1, 7, got 3"),
                ("chunk", True, "option chunk of f wants int, got True"),
                ("chunks", 3, "f has no option 'chunks'; it has: chunk, rate")):
            with self.subTest(line), self.assertRaises(BadInput) as raised:
                options.given("f", {name: value})
            self.assertEqual(str(raised.exception), line)


if __name__ == "__main__":
    unittest.main()
