# SPDX-License-Identifier: Apache-2.0
"""Cost models: the problem and rank that they are given, and one line for nonsense."""
import unittest
from typing import Any, Dict, Optional

import shared
from fake_host import HostError
from fake_problem import Case


def ask(name: str, case: Case, options: Optional[Dict[str, Any]] = None, **facts: Any
        ) -> Dict[str, Any]:
    answer = shared.host().launcher.ask("cost", implementation=name, options=options or {},
                                        problem={**case.problem(), **facts})
    return {phase: answer[phase] for phase in ("forward", "backward")}


class Costs(unittest.TestCase):
    def test_facts_of_the_problem(self) -> None:
        case = Case([5, 8], 11, (2, 2, 1))
        rows = case.rows // 2
        nothing = {"calls": None, "peak_bytes": None}

        def wanted(peak: int) -> Dict[str, Any]:
            calls = [{"group": "tp", "op": "all_reduce", "calls": 3, "bytes": 12 * rows}]
            return {"forward": {"calls": calls, "peak_bytes": peak}, "backward": nothing}

        # 11 columns are 6 and 5, or 6 and 6 where shards are equal.
        self.assertEqual(ask("cost_of_facts", case), wanted(rows * 6 * 4 + rows))
        self.assertEqual(ask("cost_of_facts", case, tp_rank=1), wanted(rows * 5 * 4 + rows))
        self.assertEqual(ask("cost_of_facts_equal", case, tp_rank=1), wanted(rows * 6 * 4 + rows))
        self.assertEqual(ask("cost_of_facts", case, {"chunk": 2}, sequence_parallel=True),
                         wanted(rows * 6 * 2 + rows // 2))

    def test_ranks(self) -> None:
        case = Case([5, 8], 11, (2, 2, 1))
        calls = [{"group": "cp", "op": "send", "calls": 1, "bytes": 1}]
        self.assertEqual(ask("cost_by_rank", case, cp_rank=1)["backward"]["calls"], calls)
        self.assertEqual(ask("cost_by_rank", case, tp_rank=1)["backward"]["calls"], [])

    def test_nonsense(self) -> None:
        lines = {
            "none": "it returned None, wanted a lossgrid.Cost",
            "dict": "it returned {'forward': {}}, wanted a lossgrid.Cost",
            "phase": "forward = 3 is no lossgrid.Phase",
            "peak": "forward.peak_bytes = 2.5 is not a whole number from 0 on",
            "negative": "forward.peak_bytes = -1 is not a whole number from 0 on",
            "call": "backward.calls[0] = ('tp', 'all_reduce', 3) is not "
                    "(group, operation, calls, bytes)",
            "group": "forward.calls[0]: group = 'tpp' is not one of tp, cp, dp, world, other",
            "operation": "forward.calls[1]: operation = 'allreduce' is not one of all_reduce, "
                         "all_gather, reduce_scatter, broadcast, all_to_all, reduce, gather, "
                         "scatter, send, recv, barrier",
            "calls": "forward.calls = 'all_reduce' is no list",
        }
        for what, line in lines.items():
            with self.subTest(what), self.assertRaises(HostError) as raised:
                ask("cost_wrong", Case([5], 11), {"what": what})
            self.assertEqual((raised.exception.kind, raised.exception.line), ("bad_input", line))

    def test_what_raises(self) -> None:
        with self.assertRaises(HostError) as raised:
            ask("cost_wrong", Case([5], 11), {"what": "seven"})
        self.assertRegex(raised.exception.line, r"^KeyError: 'seven' \(costs.py:\d+ in _wrong\)$")
        self.assertEqual(raised.exception.kind, "error")


if __name__ == "__main__":
    unittest.main()
