"""Timeouts of requests that change the cluster.

A change that is under way at the timeout still happens; only the response is REQUEST_TIMED_OUT.
Uses the clock port, so that a simulator decides when the time is up. Refuses: RequestTimedOut.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.model.errors import RequestTimedOut

if TYPE_CHECKING:
    from penstock.ports.clock import Clock

T = TypeVar("T")


async def within(clock: "Clock", wait: timedelta, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work, or raise RequestTimedOut if it takes too long.

    With a timeout of zero or less nothing is started, as in Kafka.
    """
    seconds = wait.total_seconds()
    if seconds <= 0:
        work.close()
        raise RequestTimedOut
    task = asyncio.ensure_future(work)
    too_late = False

    def give_up() -> None:
        nonlocal too_late
        too_late = True
        task.cancel()

    timer = clock.call_later(seconds, give_up)
    try:
        return await task
    except asyncio.CancelledError:
        if too_late:
            raise RequestTimedOut from None
        raise
    finally:
        timer.cancel()
