# SPDX-License-Identifier: Apache-2.0
"""Worker: one rank of a world for its whole life."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

import torch

from lossgrid import megatron_state
from lossgrid.arena import Arena, Mapped
from lossgrid.declaration import Declaration
from lossgrid.engine_trial import EngineTrial
from lossgrid.errors import ProtocolError
from lossgrid.groups import World
from lossgrid.loading import find, user_files
from lossgrid.messages import Channel, Message
from lossgrid.problem import problem_from
from lossgrid.serving import Operations, serve
from lossgrid.watching.sources import Sources
from lossgrid.trial import Trial

_OK: Dict[str, Any] = {"ok": True}


class Rank:
    """Requests of PROTOCOL.md, section Worker."""

    def __init__(self, channel: Channel, rank: int, size: int,
                 declarations: Sequence[Declaration], sources: Optional[Sources] = None) -> None:
        self._channel = channel
        self._sources = sources
        self._world = World(rank, size)
        self._declarations = declarations
        self._mapped = Mapped()
        self._plans: Dict[int, Union[Trial, EngineTrial]] = {}

    def serve(self) -> None:
        """Answers requests until the stream ends."""
        operations: Operations = {
            "ping": self._ping, "listen": self._listen, "join": self._join, "begin": self._begin,
            "forward": self._forward, "backward": self._backward}
        serve(self._channel, operations, lambda: user_files(self._declarations))

    def _ping(self, _: Message, __: List[int]) -> Dict[str, Any]:
        return _OK

    def _listen(self, _: Message, __: List[int]) -> Dict[str, Any]:
        return {"ok": True, "port": self._world.listen()}

    def _join(self, message: Message, _: List[int]) -> Dict[str, Any]:
        self._world.join(str(message.get("host", "127.0.0.1")), int(message["port"]),
                         float(message.get("timeout_s", 300)))
        return _OK

    def _begin(self, message: Message, descriptors: List[int]) -> Dict[str, Any]:
        if len(descriptors) != 1:
            raise ProtocolError(f"begin came with {len(descriptors)} descriptors, wanted the "
                                "arena")
        for plan in message.get("forget", []):
            self._plans.pop(plan, None)
        declared = find(message["implementation"], self._declarations)
        options = declared.with_options(message.get("options") or {})
        problem = problem_from(message["problem"])
        torch.set_num_threads(max(1, int(message.get("threads", 1))))
        arena = Arena(self._mapped.map(descriptors[0]), message["arrays"])
        kind = EngineTrial if declared.kind == "engine" else Trial
        trial = kind(self._world, declared, options, problem, arena)
        megatron_state.enter_grid(problem.grid)
        if declared.megatron:
            megatron_state.megatron()
        self._plans[int(message["plan"])] = trial
        return _OK

    def _plan(self, message: Message) -> Union[Trial, EngineTrial]:
        plan = self._plans.get(int(message["plan"]))
        if plan is None:
            raise ProtocolError("forward and backward come after begin")
        return plan

    def _forward(self, message: Message, _: List[int]) -> Dict[str, Any]:
        answer = self._plan(message).forward(message)
        if self._sources is not None:
            self._sources.note_modules()
        return answer

    def _backward(self, message: Message, _: List[int]) -> Dict[str, Any]:
        return self._plan(message).backward(message)
