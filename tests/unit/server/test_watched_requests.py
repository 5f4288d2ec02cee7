"""A request that fails after a wait is freed without a garbage collection: it may hold megabytes."""

import asyncio
import gc
import weakref
from functools import partial
from types import SimpleNamespace
from typing import Any

from penstock.server.dispatch import Dispatcher
from penstock.server.monitoring import ClockStopwatch
from tests.unit.ports.ticking import TickingClock


class Held:
    pass


async def test_a_failed_request_is_freed_without_a_garbage_collection() -> None:
    freed: list[bool] = []
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def answering(waits_for: "asyncio.Future[None]") -> None:
        held = Held()
        weakref.finalize(held, freed.append, True)
        try:
            try:
                await waits_for
            finally:
                del waits_for
        except ValueError:
            return

    stopwatch = ClockStopwatch(TickingClock())
    dispatcher: Any = SimpleNamespace(_stopwatch=stopwatch, _now_ns=stopwatch.now_ns, on_held=None)
    dispatcher._timed_steps = partial(Dispatcher._timed_steps, dispatcher)
    begun = answering(future)
    header: Any = None
    gc.disable()
    try:
        task = asyncio.create_task(Dispatcher._watched(dispatcher, begun, begun.send(None), header))
        await asyncio.sleep(0)
        future.set_exception(ValueError("malformed"))
        del future, begun
        await task
        del task
        assert freed == [True]
    finally:
        gc.enable()
