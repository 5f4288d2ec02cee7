"""Timeouts of requests that change the cluster."""

import asyncio
from datetime import timedelta

import pytest

from penstock.handlers.support.deadline import within
from penstock.model.errors import NotController, RequestTimedOut
from tests.unit.handlers.fakes import FakeClock

SECOND = timedelta(seconds=1)


async def test_work_that_is_done_in_time_returns_its_result_and_stops_the_clock() -> None:
    clock = FakeClock()

    async def work() -> str:
        return "done"

    assert await within(clock, SECOND, work()) == "done"
    assert [timer.callback for timer in clock.timers] == [None]


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise NotController

    with pytest.raises(NotController):
        await within(FakeClock(), SECOND, work())


@pytest.mark.parametrize("wait", [timedelta(0), timedelta(milliseconds=-5)])
async def test_nothing_is_started_without_a_timeout(wait: timedelta) -> None:
    begun: list[bool] = []

    async def work() -> None:
        begun.append(True)

    with pytest.raises(RequestTimedOut):
        await within(FakeClock(), wait, work())
    assert not begun


async def test_work_that_takes_too_long_is_cancelled() -> None:
    clock = FakeClock()
    cancelled: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    pending = asyncio.ensure_future(within(clock, SECOND, work()))
    await clock.awaited.wait()
    await asyncio.sleep(0)
    clock.ring()
    with pytest.raises(RequestTimedOut):
        await pending
    assert cancelled


async def test_a_cancelled_caller_is_not_a_timeout() -> None:
    clock = FakeClock()
    pending = asyncio.ensure_future(within(clock, SECOND, asyncio.Event().wait()))
    await clock.awaited.wait()
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending
