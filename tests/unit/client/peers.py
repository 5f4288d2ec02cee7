"""Fake peers that answer with prepared responses."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from penstock.client.interfaces import PeerUnavailable
from penstock.model.ids import NodeId


class FakePeers:
    """Records the requests to each node. Answers when `gate` is open, or not at all if `is_down`."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer
        self.asked: list[tuple[int, Any]] = []
        self.is_down = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, node: int, api_key: int, request: Any, *, timeout_s: float, purpose: str) -> Any:
        self.asked.append((node, request))
        await self.gate.wait()
        if self.is_down:
            raise PeerUnavailable
        return self._answer(request)


def led_by(topic: str, leaders: Sequence[int]) -> Any:
    """Return the part of an image that names the leaders of one topic's partitions."""
    partitions = [SimpleNamespace(leader=NodeId(leader)) for leader in leaders]
    return SimpleNamespace(
        topics={topic: SimpleNamespace(partitions=partitions)}, partition=lambda _, index: partitions[index]
    )
