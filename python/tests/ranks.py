# SPDX-License-Identifier: Apache-2.0
"""Ranks that run one function in processes of their own, without launcher and workers."""
from __future__ import annotations

import os
import pickle
import tempfile
import traceback
from datetime import timedelta
from typing import Any, Callable, List

import torch
import torch.distributed as dist

from lossgrid import shared_group


def run(size: int, function: Callable[..., Any], *arguments: Any, backend: str = "shared",
        timeout_s: float = 60) -> List[Any]:
    """Returns the results of ``function(rank, *arguments)`` on ``size`` ranks that have joined a
    world; the exception where it raised one, None where its process was killed."""
    torch.set_num_threads(1)
    shared_group.register()
    with tempfile.TemporaryDirectory() as folder:
        pids = [_forked(rank, size, folder, function, arguments, backend, timeout_s)
                for rank in range(size)]
        for pid in pids:
            os.waitpid(pid, 0)
        return [_result(os.path.join(folder, str(rank))) for rank in range(size)]


def _forked(rank: int, size: int, folder: str, function: Callable[..., Any], arguments: Any,
            backend: str, timeout_s: float) -> int:
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = dist.FileStore(os.path.join(folder, "store"), size)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size,
                                timeout=timedelta(seconds=timeout_s))
        try:
            result = function(rank, *arguments)
        except Exception as error:
            result = error
        with open(os.path.join(folder, f"{rank}.part"), "wb") as file:
            pickle.dump(result, file)
        os.rename(os.path.join(folder, f"{rank}.part"), os.path.join(folder, str(rank)))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _result(path: str) -> Any:
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return pickle.load(file)
