"""Tests of the simulator's event loop: virtual time, order within an owner, death of an owner."""

import asyncio
from random import Random

import pytest

from penstock_sim.clock import SimClock
from penstock_sim.loop import SimLoop, Stuck


def make_loop() -> SimLoop:
    return SimLoop(Random(1))  # type: ignore[abstract]


def test_time_passes_without_waiting() -> None:
    loop = make_loop()

    async def sleeper() -> float:
        await asyncio.sleep(3600)
        return loop.time()

    assert loop.run(sleeper()) == 3600


def test_one_owner_runs_its_callbacks_in_order() -> None:
    loop = make_loop()
    calls: list[int] = []
    owner = loop.owner("node")
    for number in range(20):
        loop.as_owner(owner, calls.append, number)
    loop.run(asyncio.sleep(1))
    assert calls == list(range(20))


def test_scheduling_depends_only_on_the_seed() -> None:
    def story(seed: int) -> list[str]:
        loop = SimLoop(Random(seed))  # type: ignore[abstract]
        calls: list[str] = []
        for name in "abc":
            owner = loop.owner(name)
            for _ in range(5):
                loop.as_owner(owner, calls.append, name)
        loop.run(asyncio.sleep(1))
        return calls

    assert story(1) == story(1) != story(2)


def test_a_blocking_call_moves_the_clock_of_its_owner_and_delays_its_next_callback() -> None:
    loop = make_loop()
    owner = loop.owner("node")
    clock = SimClock(loop, owner)
    began = clock.monotonic()
    seen: list[tuple[str, float, float]] = []

    def note(name: str) -> None:
        seen.append((name, round(clock.monotonic() - began, 6), loop.now))

    def call() -> None:
        owner.block(loop.now, 0.25)
        owner.block(loop.now, 0.25)
        note("returned")
        clock.call_later(1.0, lambda: note("timer"))

    loop.as_owner(owner, call)
    loop.as_owner(owner, note, "next")
    loop.run(asyncio.sleep(2))
    assert seen == [("returned", 0.5, 0.0), ("next", 0.5, 0.5), ("timer", 1.5, 1.5)]


def test_a_dead_owner_never_runs_again() -> None:
    loop = make_loop()
    calls: list[str] = []
    owner = loop.owner("node")

    async def life() -> None:
        try:
            await asyncio.sleep(5)
            calls.append("woke up")
        except asyncio.CancelledError:
            calls.append("was called")
            raise

    async def world() -> None:
        loop.spawn(owner, life())
        await asyncio.sleep(1)
        owner.die()
        await asyncio.sleep(10)

    loop.run(world())
    assert calls == []


def test_a_paused_owner_catches_up_when_it_wakes() -> None:
    loop = make_loop()
    calls: list[float] = []
    owner = loop.owner("node")

    async def world() -> None:
        loop.pause(owner, 7)
        loop.as_owner(owner, lambda: calls.append(loop.now))
        await asyncio.sleep(10)

    loop.run(world())
    assert calls == [7]


def test_a_stuck_simulation_is_reported() -> None:
    loop = make_loop()

    async def forever() -> None:
        await loop.create_future()

    with pytest.raises(Stuck):
        loop.run(forever())


def test_real_io_is_not_supported() -> None:
    loop = make_loop()
    with pytest.raises(NotImplementedError):
        loop.add_reader(0, lambda: None)
