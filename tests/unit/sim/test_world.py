"""Tests of crash points: the power fails with the crash that it was drawn for, and at no other time."""

import asyncio

import pytest

from penstock_sim.disk import Crashed
from penstock_sim.host import Host
from penstock_sim.plan import Plan
from penstock_sim.world import World


def armed_world() -> tuple[World, Host]:
    """Return a world with a node that is up and will lose power in its next disk call."""
    world = World(Plan(1))
    host = world.hosts[0]
    host.owner = host.disk.owner = world.loop.owner(host.name)
    host.state = "up"
    host.disk.crash_at = host.disk.calls + 1
    host.disk.power_fails_at_crash = True
    world.down_for(host, 1000.0)
    return world, host


async def supervise(world: World, seconds: float) -> None:
    task = asyncio.ensure_future(world._supervise())
    await asyncio.sleep(seconds)
    task.cancel()


def test_a_crash_point_with_power_loss_takes_the_power() -> None:
    world, host = armed_world()

    async def crash() -> None:
        with pytest.raises(Crashed):
            host.disk.call("write", "/data/file")
        await supervise(world, 1.0)

    world.loop.run(crash())
    assert host.state == "down"
    assert dict(world.trace.faults) == {"power loss": 1}


def test_a_node_that_stops_before_its_crash_point_keeps_its_power() -> None:
    world, host = armed_world()

    async def stop() -> None:
        host.kill()
        await supervise(world, 1.0)

    world.loop.run(stop())
    assert host.disk.crash_at is None
    assert dict(world.trace.faults) == {"kill": 1}
