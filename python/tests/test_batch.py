# SPDX-License-Identifier: Apache-2.0
"""Every view of a batch, written out by hand for one small pack."""
import json
import os
import tempfile
import unittest
from typing import Any, Dict, List

import torch

import shared
from fake_problem import Case
from lossgrid.layout import own_rows
from lossgrid.problem import Cut


class BatchViews(unittest.TestCase):
    """Lengths 3 and 5 on tp2cp2: padded lengths 4 and 8, V = 7."""

    found: List[Dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        case = Case([3, 5], 7, (2, 2, 1), masked=[(1, 2)],
                    objective={"kind": "clipped_pg", "ratio_clip_min": 0.2})
        case.ids[:] = torch.tensor([1, 2, 3, 0, 4, 5, 6, 1, 2, 0, 0, 0])
        case.targets[:] = torch.tensor([2, 3, -1, -1, 5, 6, 1, 2, -1, -1, -1, -1])
        case.add_token_array("advantages", torch.arange(12.) * case.real)
        case.add_token_array("prev_logprobs", -torch.arange(12.) * case.real)
        case.extra["rewards"] = torch.tensor([1.5, -2.0])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "views")
            world = shared.world(4)
            case.begin(world, "tells_views", options={"path": path})
            world.ask("forward", grad=False)
            cls.found = []
            for rank in range(4):
                with open(f"{path}.{rank}") as file:
                    cls.found.append(json.load(file))

    def values(self, name: str, rank: int = 0, dtype: str = "torch.int64") -> Any:
        view = self.found[rank][name]
        self.assertEqual(view["dtype"], dtype, name)
        return view["values"]

    def test_rows_of_the_ranks(self) -> None:
        # cp rank 0: chunks 0 and 3, cp rank 1: chunks 1 and 2, of 1 and 2 rows
        self.assertEqual(self.values("positions"), [0, 3, 4, 5, 10, 11])
        self.assertEqual(self.values("positions", 1), [0, 3, 4, 5, 10, 11])
        self.assertEqual(self.values("positions", 2), [1, 2, 6, 7, 8, 9])
        self.assertEqual(self.values("sequence", 2), [0, 0, 1, 1, 1, 1])

    def test_ids(self) -> None:
        self.assertEqual(self.values("labels"), [2, 0, 5, 6, 0, 0])
        self.assertEqual(self.values("labels", 2), [3, 0, 1, 2, 0, 0])
        self.assertEqual(self.values("labels_ignore"), [2, -100, 5, -100, -100, -100])
        self.assertEqual(self.values("labels_ignore", 2), [3, -100, 1, 2, -100, -100])
        whole = [2, 3, 0, 0, 5, 6, 1, 2, 0, 0, 0, 0]
        self.assertEqual(self.values("labels_padded"), whole)
        self.assertEqual(self.values("pack.labels", 3), whole)
        ids = [1, 2, 3, 0, 4, 5, 6, 1, 2, 0, 0, 0]
        self.assertEqual(self.values("ids_padded"), ids)
        self.assertEqual(self.values("tokens.ids"), ids)

    def test_masks(self) -> None:
        def mask(name: str, rank: int = 0) -> List[Any]:
            values = self.values(name, rank, "torch.bool")
            return [[int(one) for one in row] if isinstance(row, list) else int(row)
                    for row in values]
        self.assertEqual(mask("mask"), [1, 0, 1, 0, 0, 0])
        self.assertEqual(mask("mask", 2), [1, 0, 1, 1, 0, 0])
        self.assertEqual(mask("predicts"), [1, 0, 1, 1, 0, 0])
        self.assertEqual(mask("pack.mask"), [1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0])
        self.assertEqual(mask("pack.predicts"), [1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0])
        self.assertEqual(mask("pack.real"), [1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0])
        self.assertEqual(mask("tokens.mask"), [1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0])
        self.assertEqual(mask("sample_mask"), [1, 1])
        self.assertEqual(mask("attention_mask"), [[1, 1, 1, 0, 0, 0, 0, 0],
                                                  [1, 1, 1, 1, 1, 0, 0, 0]])

    def test_geometry(self) -> None:
        self.assertEqual(self.values("cu_seqlens", 0, "torch.int32"), [0, 3, 8])
        self.assertEqual(self.values("cu_seqlens_padded", 0, "torch.int32"), [0, 4, 12])
        self.assertEqual(self.values("lengths"), [3, 5])
        self.assertEqual(self.values("pack.sequence"), [0] * 4 + [1] * 8)

    def test_objective(self) -> None:
        real = "torch.float32"
        self.assertEqual(self.values("tokens.advantages", 0, real),
                         [0, 1, 2, 0, 4, 5, 6, 7, 8, 0, 0, 0])
        self.assertEqual(self.values("pack.advantages", 0, real),
                         [1, 2, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0])
        self.assertEqual(self.values("advantages", 0, real), [1, 0, 5, 6, 0, 0])
        self.assertEqual(self.values("advantages", 2, real), [2, 0, 7, 8, 0, 0])
        self.assertEqual(self.values("prev_logprobs", 2, real), [-2, 0, -7, -8, 0, 0])
        self.assertEqual(self.values("rewards", 0, real), [1.5, -2])
        self.assertEqual(self.found[0]["objective"], {"kind": "clipped_pg", "ratio_clip_min": 0.2})
        self.assertEqual(self.found[0]["denominators"], {
            "valid_tokens": 5, "valid_sequences": 2, "positive_tokens": 0,
            "trained_sequences": 0, "all_sequences": 0,
            "trained_groups": 0, "all_groups": 0})

    def test_vocabulary_and_ranks(self) -> None:
        for rank, start, end in ((0, 0, 4), (1, 4, 7), (2, 0, 4), (3, 4, 7)):
            one = self.found[rank]
            self.assertEqual((one["vocab_size"], one["vocab_start"], one["vocab_end"]),
                             (7, start, end))
            tp, cp = rank % 2, rank // 2
            self.assertEqual(one["tp"], [tp, 2, [2 * cp, 2 * cp + 1]])
            self.assertEqual(one["cp"], [cp, 2, [tp, tp + 2]])
            self.assertEqual(one["dp"], [0, 1, [rank]])
            self.assertEqual(one["world"], [rank, 4, [0, 1, 2, 3]])
            self.assertEqual((one["temperature"], one["microbatch"], one["microbatches"]),
                             (1.0, 0, 1))

    def test_maps(self) -> None:
        for one in self.found:
            self.assertTrue(one["round_trip"] and one["join_cp"])
            self.assertEqual(one["rows_to_padded"], [[1, 2, 3, 4, 0, 0, 0, 0],
                                                     [5, 6, 7, 8, 9, 10, 11, 12]])
            self.assertEqual(one["rows_to_padded_shape"], [2, 8, 2])
        self.assertEqual(self.found[2]["split_cp"], [1, 2, 6, 7, 8, 9])

    def test_views_cannot_be_set(self) -> None:
        self.assertNotIn("set", self.found[0])


class Layouts(unittest.TestCase):
    """Rows of CP ranks on paper."""

    def test_rows_of_ranks(self) -> None:
        cu = [0, 4, 12]
        for cut, cp, rows in (
                (Cut(True, 2, True), 2, [[0, 3, 4, 5, 10, 11], [1, 2, 6, 7, 8, 9]]),
                (Cut(True, 1, False), 2, [[0, 1, 4, 5, 6, 7], [2, 3, 8, 9, 10, 11]]),
                (Cut(True, 2, False), 2, [[0, 2, 4, 5, 8, 9], [1, 3, 6, 7, 10, 11]]),
                (Cut(False, 1, False), 3, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
                (Cut(False, 2, True), 2, [[0, 1, 2, 9, 10, 11], [3, 4, 5, 6, 7, 8]]),
                (Cut(False, 3, True), 2, [[0, 1, 6, 7, 8, 9], [2, 3, 4, 5, 10, 11]]),
                (Cut(False, 1, False), 1, [list(range(12))])):
            self.assertEqual([own_rows(cut, cu, cp, rank) for rank in range(cp)], rows)


class Arena(unittest.TestCase):
    def test_tensors_that_user_code_keeps_stay_readable(self) -> None:
        world = shared.world(1)
        for rows in (5, 50000, 7):
            case = Case([rows], 3)
            case.begin(world, "keeps")
            world.ask("forward", grad=False)


if __name__ == "__main__":
    unittest.main()
