# SPDX-License-Identifier: Apache-2.0
"""One measured call of user code: time, memory and collectives."""
from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any, Callable, Dict, Optional, TypeVar, Union

import torch

from lossgrid.measure.collectives import Collectives
from lossgrid.measure.dispatched import DispatchedCalls
from lossgrid.measure.light_mode import without_modes
from lossgrid.measure.memory import LiveStorages, MemoryMode

_T = TypeVar("_T")

# Cycles of the kernel before a phase: 2 ms at 2 GHz, longer than Python takes for the launches of a
# phase before its first wait.
_GATE_CYCLES = 4_000_000


class Phase:
    """A forward or a backward. Code that runs while it is paused is not measured.

    On a GPU the time is measured between two events. A kernel keeps the stream busy before the
    first event, so that launches queue up behind it as in a step of training: Python's time for
    launches does not count, unless the code waits for the GPU in between.
    """

    def __init__(self, device: torch.device, storages: Optional[LiveStorages],
                 collectives: Optional[Collectives]) -> None:
        self._device = device
        self._storages = storages
        self._collectives = collectives
        self._memory_mode: Union[MemoryMode, DispatchedCalls, None] = None
        self._paused = 0
        self._excluded_ns = 0
        self._time_ns = 0
        self._peak: Optional[int] = None

    def run(self, call: Callable[[], _T]) -> _T:
        """Calls ``call`` and returns its result."""
        cuda = self._device.type == "cuda"
        if self._storages is None and self._collectives is None and not cuda:
            return self._on_processor(call)
        with ExitStack() as stack:
            if self._storages is not None and not cuda:
                self._storages.begin_phase()
                both = self._collectives and self._collectives.watch_with(self._storages)
                self._memory_mode = stack.enter_context(both or MemoryMode(self._storages))
            if self._collectives is not None and \
                    not isinstance(self._memory_mode, DispatchedCalls):
                stack.enter_context(self._collectives.watch())
            result = self._on_gpu(call) if cuda else self._on_processor(call)
        if self._storages is not None and not cuda:
            self._peak = self._storages.peak
        return result

    def _on_processor(self, call: Callable[[], _T]) -> _T:
        begin = time.perf_counter_ns()
        result = call()
        self._time_ns = time.perf_counter_ns() - begin - self._excluded_ns
        return result

    def _on_gpu(self, call: Callable[[], _T]) -> _T:
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        held = torch.cuda.memory_allocated(self._device)
        torch.cuda._sleep(_GATE_CYCLES)
        begin.record()
        result = call()
        end.record()
        torch.cuda.synchronize(self._device)
        self._time_ns = int(begin.elapsed_time(end) * 1e6)
        if self._storages is not None:
            self._peak = torch.cuda.max_memory_allocated(self._device) - held
        return result

    def pause(self) -> "_Pause":
        return _Pause(self)

    def _begin_pause(self) -> None:
        self._paused += 1
        self._tell_observers()

    def _end_pause(self, since_ns: int) -> None:
        self._paused -= 1
        self._tell_observers()
        if self._paused == 0:
            self._excluded_ns += time.perf_counter_ns() - since_ns

    def _tell_observers(self) -> None:
        is_paused = self._paused > 0
        if self._memory_mode is not None:
            self._memory_mode.paused = is_paused
        if self._collectives is not None:
            self._collectives.paused = is_paused

    def message(self) -> Dict[str, Any]:
        """Returns MEASURED of the protocol; null for values that were not requested."""
        measured: Dict[str, Any] = {"time_ns": self._time_ns, "peak_bytes": self._peak,
                                    "collectives": None, "calls": None}
        if self._collectives is not None:
            measured.update(self._collectives.message())
        return measured


class _Pause:
    """The context of a pause. Views of small batches enter it so often that a generator would cost
    as much as they do."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase

    def __enter__(self) -> None:
        self._begin_ns = time.perf_counter_ns()
        self._phase._begin_pause()
        self._unseen = without_modes()
        self._unseen.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._unseen.__exit__(*raised)
        self._phase._end_pause(self._begin_ns)
