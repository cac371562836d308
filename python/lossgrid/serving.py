# SPDX-License-Identifier: Apache-2.0
"""Loop of launcher and worker: one answer for every request, even after an error."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

from lossgrid.errors import ProtocolError, answer_to
from lossgrid.messages import Channel, Message, close_all

Operations = Dict[str, Callable[[Message, List[int]], Dict[str, Any]]]


def serve(channel: Channel, operations: Operations, files: Callable[[], Sequence[str]]) -> None:
    """Answers requests by the operation that they name until the stream ends.

    ``files`` are the user's, whose frames an error names.
    """
    while True:
        message, descriptors = channel.receive()
        if message is None:
            return
        try:
            operation = operations.get(message.get("op", ""))
            if operation is None:
                raise ProtocolError(f"there is no operation {message.get('op')!r}")
            answer = operation(message, descriptors)
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            answer = answer_to(error, files())
        close_all(descriptors)
        channel.send(answer)
