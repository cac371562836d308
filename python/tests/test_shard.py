# SPDX-License-Identifier: Apache-2.0
"""The part of the vocabulary of a TP rank."""
import unittest

from lossgrid.shard import Shard


class Shards(unittest.TestCase):
    def test_a_vocabulary_is_cut(self) -> None:
        self.assertEqual([Shard(7, 2, rank, "ceil").range for rank in (0, 1)], [(0, 4), (4, 7)])
        self.assertEqual(Shard(7, 2, 1, "equal").range, (4, 8))

    def test_a_head_of_one_number_a_row_is_on_every_rank(self) -> None:
        for rank in range(4):
            shard = Shard(1, 4, rank, "ceil")
            self.assertEqual((shard.width, shard.valid, shard.range), (1, 1, (0, 1)))
