"""Drives decisions about the cluster: one at a time, each on the image that the one before it left.

Calls the deciding functions of this folder, then metadata/quorum.py. Decides nothing itself.
A caller that goes away does not stop a decision whose records are on their way.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.controller.decision import Decision

if TYPE_CHECKING:
    from penstock.metadata.image import Image
    from penstock.metadata.records import MetadataRecord

T = TypeVar("T")


class Quorum(Protocol):
    """What the controller needs of metadata/quorum.py."""

    @property
    def image(self) -> "Image": ...

    async def commit(self, records: "Sequence[MetadataRecord]") -> None:
        """Return once the records are durable, applied and published."""
        ...


class Controller:
    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._turn = asyncio.Lock()
        self._under_way: set[asyncio.Task[object]] = set()

    async def run(self, decide: "Callable[[Image], Decision[T]]") -> T:
        """Decide on the newest image, commit the records, then return the reply.

        Raises what `decide` raises (a Refusal) and what the commit raises.
        """
        task = asyncio.ensure_future(self._take_turn(decide))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        # Shielded: were a cancelled caller to release the turn between append and publish,
        # the next decision would be taken on an image that lacks the records before it.
        return await asyncio.shield(task)

    async def _take_turn(self, decide: "Callable[[Image], Decision[T]]") -> T:
        async with self._turn:
            decision = decide(self._quorum.image)
            if decision.records:
                await self._quorum.commit(decision.records)
            return decision.reply
