"""Waits until what a client was told is written is also shown.

acks=1 is answered before the disk has the record, and consumers see only what the disk has. A client
that then asks for the end of the log must be told of its own record, as Kafka would: so the question
waits for the sync that is under way. Calls go to replication/partition.py.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.model.ids import TopicName

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context
    from penstock.scheduling.scheduler import Pace

WAIT_S_MAX: Final = 30.0
"""A disk this slow gets its answer from what can be seen."""


async def until_shown(context: "Context", places: Iterable[tuple[str, int]], pace: "Pace") -> None:
    """Return when all that is written in these partitions by now is shown, or never will be."""
    all_shown = asyncio.get_running_loop().create_future()
    outstanding = 0
    is_waiting = False

    def done(error_code: int) -> None:
        nonlocal outstanding
        outstanding -= 1
        if outstanding == 0 and is_waiting and not all_shown.done():
            all_shown.set_result(None)

    deadline = context.clock.monotonic() + WAIT_S_MAX
    async for topic, index in pace.each(places):
        partition = context.replicas.find(TopicName(topic), index)
        if partition is not None and partition.is_leader and partition.wait_shown(deadline, done):
            outstanding += 1
    if outstanding:
        is_waiting = True
        await all_shown
