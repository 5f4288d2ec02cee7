"""Waiting until acknowledged records are visible.

acks=1 is answered before the record is durable, and consumers see only durable records. A client
that then asks for the end of the log must see its own record, as in Kafka: the request therefore
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
"""With a disk slower than this, the response contains what is visible."""


async def wait_until_visible(context: "Context", partitions: Iterable[tuple[str, int]], pace: "Pace") -> None:
    """Return when everything written to these partitions so far is visible, or never will be."""
    all_visible = asyncio.get_running_loop().create_future()
    outstanding = 0
    is_waiting = False

    def done(error_code: int) -> None:
        nonlocal outstanding
        outstanding -= 1
        if outstanding == 0 and is_waiting and not all_visible.done():
            all_visible.set_result(None)

    deadline = context.clock.monotonic() + WAIT_S_MAX
    async for topic, index in pace.each(partitions):
        partition = context.replicas.find(TopicName(topic), index)
        if partition is not None and partition.is_leader and partition.wait_committed(deadline, done):
            outstanding += 1
    if outstanding:
        is_waiting = True
        await all_visible
