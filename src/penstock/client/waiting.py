"""Waiting by the clock port, and for futures that somebody else may have given up on. Refuses nothing."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from penstock.ports.clock import Clock


def look_at(outcome: "asyncio.Future[Any]") -> None:
    """Nobody may be waiting any more when it fails: that is no fault."""
    if not outcome.cancelled():
        outcome.exception()


async def at_most(clock: Clock, seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Give some work so much time, and no more; how it ends is nobody's business."""
    task = asyncio.ensure_future(work)

    def give_up() -> None:
        task.cancel()

    timer = clock.call_later(seconds, give_up)
    try:
        await asyncio.gather(task, return_exceptions=True)
    finally:
        timer.cancel()
