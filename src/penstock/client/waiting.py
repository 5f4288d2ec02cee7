"""Waiting on the clock port, and for futures whose waiter may have given up. Refuses nothing."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from penstock.ports.clock import Clock


def retrieve_exception(outcome: "asyncio.Future[Any]") -> None:
    """Mark a future's exception as retrieved: its waiter may have given up, and asyncio would log the exception."""
    if not outcome.cancelled():
        outcome.exception()


async def at_most(clock: Clock, seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine for at most some seconds; its outcome is ignored."""
    task = asyncio.ensure_future(work)

    def give_up() -> None:
        task.cancel()

    timer = clock.call_later(seconds, give_up)
    try:
        await asyncio.gather(task, return_exceptions=True)
    finally:
        timer.cancel()
