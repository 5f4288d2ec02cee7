"""A manual clock, and a single-node quorum on the simulated disk."""

import asyncio
from collections.abc import Callable
from random import Random
from uuid import UUID

from penstock.config.settings import BrokerSettings
from penstock.metadata.quorum import Quorum
from penstock.model.ids import NodeId
from penstock.ports.clock import Timer
from penstock_sim.disk import SimDisk

FEATURES = {"group.version": 1, "metadata.version": 30, "transaction.version": 2}


class TestTimer:
    __test__ = False

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class TestClock:
    """A clock that stands still; timers without a delay run with the event loop, others with `advance`."""

    __test__ = False

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.timers: list[tuple[float, TestTimer, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def wall_ms(self) -> int:
        return self.now_ms

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        timer = TestTimer()
        if delay_s == 0:
            asyncio.get_running_loop().call_soon(lambda: None if timer.cancelled else callback())
        else:
            self.timers.append((self.monotonic() + delay_s, timer, callback))
        return timer

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)
        due = [entry for entry in self.timers if entry[0] <= self.monotonic()]
        self.timers = [entry for entry in self.timers if entry[0] > self.monotonic()]
        for _, timer, callback in due:
            if not timer.cancelled:
                callback()


async def settle() -> None:
    """Run everything that is due."""
    for _ in range(50):
        await asyncio.sleep(0)


async def open_quorum(disk: SimDisk, clock: TestClock | None = None, **options: str) -> Quorum:
    """Open a quorum of node 1; options have underscores instead of dots."""
    disk.make_folder("/data")
    disk.sync_folder("/")
    settings = BrokerSettings({name.replace("_", "."): value for name, value in options.items()})
    return await Quorum.open(
        disk=disk,
        clock=clock or TestClock(),
        random=Random(1),
        data_folder="/data",
        node_id=NodeId(1),
        directory_id=UUID(int=9),
        settings=settings,
        initial_features=FEATURES,
    )
