# SPDX-License-Identifier: Apache-2.0
"""Handles of calls, as torch.distributed returns them."""
from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, List, Optional, Protocol, Sequence

import torch
from torch._C._distributed_c10d import Work


class Completed(Protocol):
    """A call or a receipt."""

    done: bool
    error: Optional[BaseException]


class _Completing(Protocol):
    def complete(self, call: Any) -> None: ...
    def is_complete(self, call: Any) -> bool: ...


class SharedWork(Work):  # type: ignore[misc]
    """The handle of one call; ``results`` are the tensors that it writes."""

    def __init__(self, by: _Completing, call: Completed, results: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._by = by
        self._call = call
        self._results = list(results)
        self._future: Optional[Any] = None

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        self._by.complete(self._call)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._by.is_complete(self._call)

    def is_success(self) -> bool:
        return self.is_completed() and self._call.error is None

    def exception(self) -> Optional[BaseException]:
        return self._call.error

    def result(self) -> List[torch.Tensor]:
        self.wait()
        return self._results

    def get_future(self) -> Any:
        """Returns a future, which a thread completes where the call is not complete."""
        if self._future is None:
            self._future = torch.futures.Future()
            if self.is_completed():
                self._finish()
            else:
                threading.Thread(target=self._finish, daemon=True).start()
        return self._future

    def _finish(self) -> None:
        assert self._future is not None
        try:
            self.wait()
        except Exception as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(self._results)

    def source_rank(self) -> int:
        """Returns the rank in the group that a received tensor came from."""
        return int(self._call.source)  # type: ignore[attr-defined]

    def _source_rank(self) -> int:
        return self.source_rank()


class DoneWork(SharedWork):
    """The handle of a call that is over."""

    def __init__(self, results: Sequence[torch.Tensor] = ()) -> None:
        super().__init__(_NOTHING, _NOTHING, results)


class _Nothing:
    done = True
    error = None

    def complete(self, call: Any) -> None:
        pass

    def is_complete(self, call: Any) -> bool:
        return True


_NOTHING = _Nothing()


class JointWork(SharedWork):
    """The handle of several calls."""

    def __init__(self, works: Sequence[SharedWork]) -> None:
        super().__init__(_NOTHING, _NOTHING, [one for work in works for one in work._results])
        self._works = list(works)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return all([work.wait() for work in self._works])

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self._works])

    def exception(self) -> Optional[BaseException]:
        return next((work.exception() for work in self._works if work.exception()), None)
