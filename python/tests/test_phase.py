# SPDX-License-Identifier: Apache-2.0
"""The order of a phase on a GPU, by a torch.cuda that writes down its calls; caches before one."""
import unittest
from typing import Any, List
from unittest import mock

import torch

from lossgrid.measure import cache
from lossgrid.measure.phase import Phase


class GpuThatWritesDown:
    """Stands for torch.cuda: ``calls`` has the names of what was called, in order."""

    def __init__(self) -> None:
        self.calls: List[str] = []
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                gpu.calls.append("record")

            def elapsed_time(self, _: Any) -> float:
                return 1.5

        self.Event = Event

    def synchronize(self, _: Any) -> None:
        self.calls.append("synchronize")

    def _sleep(self, cycles: int) -> None:
        assert cycles > 1_000_000
        self.calls.append("gate")

    def reset_peak_memory_stats(self, _: Any) -> None:
        self.calls.append("reset")

    def memory_allocated(self, _: Any) -> int:
        return 0


class PhaseOnAGpu(unittest.TestCase):
    def test_launches_queue_up_behind_a_kernel_in_front_of_the_first_event(self) -> None:
        gpu = GpuThatWritesDown()
        with mock.patch("lossgrid.measure.phase.torch.cuda", gpu):
            phase = Phase(torch.device("cuda", 0), None, None)
            phase.run(lambda: gpu.calls.append("launches"))
        self.assertEqual(gpu.calls, ["synchronize", "reset", "gate", "record", "launches",
                                     "record", "synchronize"])
        self.assertEqual(phase.message()["time_ns"], 1_500_000)


class Caches(unittest.TestCase):
    def setUp(self) -> None:
        cache._words.clear()

    def test_a_walk_reads_all_of_its_bytes_and_keeps_them(self) -> None:
        device = torch.device("cpu")
        cache.walk_cache(device, 1 << 20)
        (words,) = cache._words.values()
        self.assertEqual(words.numel() * words.element_size(), 1 << 20)
        cache.walk_cache(device, 1 << 20)
        (again,) = cache._words.values()
        self.assertIs(again, words)

if __name__ == "__main__":
    unittest.main()
