"""How long a client wants to wait for a change of the cluster.

A change that is under way when the time is up still happens; only the answer is REQUEST_TIMED_OUT.
Goes by the clock port, so a simulator decides when the time is up. Refuses: RequestTimedOut.
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
    """Return what the work returns, or raise RequestTimedOut if that takes too long.

    Without any time at all nothing is begun, as in Kafka.
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
