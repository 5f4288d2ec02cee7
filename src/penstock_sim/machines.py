"""Machines with several nodes: their names, a client that moves replicas, and the invariant about hosts.

Node k of a plan with several cores is on machine (k - 1) modulo the number of machines. Nodes of one machine advertise
its name with different ports, and each has its own disk; a fault ends all of them at the same moment, possibly with
the power. Invariant 62: two replicas of a partition share a machine only if there are fewer machines than replicas.
It holds for new partitions, and at the end of a seed after a drain and after a rebalance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.controller.replica_plan import Location, Partition, ReplicaMove, TooFewNodes, drain, spread
from penstock.metadata.image import Image
from penstock.wire.api import ApiKey
from penstock_sim.client import Client, Lost, Shared, Unavailable, seconds
from penstock_sim.host import PORT, Host

if TYPE_CHECKING:
    from penstock_sim.plan import Plan
    from penstock_sim.world import World

MOVE_S_MAX: Final = 240.0


def machine_of(node_id: int, plan: Plan) -> str:
    """Return the name of the machine of a node."""
    return f"machine{(node_id - 1) % _machine_count(plan) + 1}"


def address_of(node_id: int, plan: Plan) -> tuple[str, int]:
    """Return the address that a node advertises if its machine has several."""
    return machine_of(node_id, plan), PORT + (node_id - 1) // _machine_count(plan)


def node_options(world: World, node_id: int, name: str) -> dict[str, str]:
    """Return the options of a node on a machine with several: the first node of each machine is a controller."""
    plan = world.plan
    if plan.cores == 1:
        return {}
    machine, port = address_of(node_id, plan)
    world.hub.advertised[machine, port] = name, PORT
    return {
        "advertised.listeners": f"PLAINTEXT://{machine}:{port}",
        "process.roles": "broker,controller" if node_id <= _machine_count(plan) else "broker",
    }


def _machine_count(plan: Plan) -> int:
    return plan.nodes // plan.cores


def on_same_machine(host: Host, world: World) -> list[Host]:
    """Return all nodes of the machine of a node."""
    name = machine_of(host.node_id, world.plan)
    return [each for each in world.hosts if machine_of(each.node_id, world.plan) == name]


def sharing(replicas: Collection[int], image: Image) -> str | None:
    """Return which replicas share a machine although another machine has none."""
    named: dict[int, str] = {node_id: broker.end_points[0].host for node_id, broker in image.brokers.items()}
    # The controller does not give replicas to brokers that are about to stop.
    usable = {
        named[node_id]
        for node_id, broker in image.brokers.items()
        if broker.fenced or not broker.in_controlled_shutdown
    }
    used = Counter(named[node_id] for node_id in replicas if node_id in named)
    if not used or max(used.values()) == 1 or not usable - set(used):
        return None
    return f"replicas {tuple(replicas)} are on {dict(used)}, but not on {sorted(usable - set(used))}"


class Mover(Client):
    """An administrator that drains nodes and rebalances replicas."""

    def __init__(self, shared: Shared, name: str) -> None:
        super().__init__(shared, name)
        self.moved = 0

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(1 + self.random.random() * 6)
            try:
                if self.random.random() < 0.5:
                    await self.rebalance()
                else:
                    await self.drain()
            except (Lost, Unavailable, TooFewNodes):
                # Too few nodes are up.
                self.topics.clear()

    async def rebalance(self) -> None:
        await self._move(spread)

    async def drain(self, node: int | None = None) -> None:
        chosen = node or self.random.randrange(1, len(self.shared.bootstrap) + 1)
        await self._move(lambda partitions, locations: drain(partitions, [chosen], locations))

    async def _move(self, plan: Callable[[list[Partition], dict[int, Location]], list[ReplicaMove]]) -> None:
        address = self.random.choice(self.shared.bootstrap)
        under_way = await self.ask(address, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None, timeout=seconds(10))
        if under_way.topics:
            return
        brokers = await self.ask(address, ApiKey.DESCRIBE_CLUSTER, 2, include_fenced_brokers=True)
        locations = {
            int(each.broker_id): Location(each.rack, each.host, may_receive=not each.is_fenced)
            for each in brokers.brokers
        }
        moves = plan(await self._partitions(address), locations)
        if not moves:
            return
        self.moved += len(moves)
        await self.ask(
            address,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            timeout=seconds(10),
            topics=[
                {"name": move.topic, "partitions": [{"partition_index": move.partition, "replicas": list(move.after)}]}
                for move in moves
            ],
        )

    async def _partitions(self, address: tuple[str, int]) -> list[Partition]:
        reply = await self.ask(address, ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False)
        return [
            Partition(str(topic.name), int(each.partition_index), tuple(map(int, each.replica_nodes)))
            for topic in reply.topics
            for each in topic.partitions
        ]


async def finish(world: World) -> None:
    """Rebalance the healthy cluster, drain a node and rebalance again, and check after each where replicas are.

    Partitions that were created before all machines had registered may share one until the first rebalance.
    """
    mover = Mover(world.shared, "last-mover")
    node = world.random.randrange(1, world.plan.nodes + 1)
    for what, act in (
        ("the rebalance", mover.rebalance),
        ("the drain", lambda: mover.drain(node)),
        ("the second rebalance", mover.rebalance),
    ):
        deadline = world.loop.now + MOVE_S_MAX
        # A mover does nothing while replicas are being moved, as those of the last seconds may be.
        while being_moved(world.hosts) and world.loop.now < deadline:
            await mover.sleep(0.5)
        while not await world.run_as(mover, _try(act)) and world.loop.now < deadline:
            await mover.sleep(1.0)
        while (moving := being_moved(world.hosts)) and world.loop.now < deadline:
            await mover.sleep(0.5)
        if moving:
            world.complaints.append(f"inv_57: {what} is not complete after {MOVE_S_MAX:.0f} s: {', '.join(moving[:4])}")
            return
        world.complaints.extend(f"inv_62: after {what} {problem}" for problem in _shared_machines(world.hosts))
    world.trace.sometimes["replicas moved at the end"] += mover.moved


async def _try(act: Callable[[], Any]) -> bool:
    try:
        await act()
    except (Lost, Unavailable, TooFewNodes):
        return False
    return True


def _latest(hosts: Sequence[Host]) -> Image:
    images = [host.node.context.quorum.image for host in hosts if host.is_up and host.node is not None]
    return max(images, key=lambda image: image.offset)


def being_moved(hosts: Sequence[Host]) -> list[str]:
    """Return the partitions whose reassignment is not complete."""
    return [
        f"{topic.name}-{index}"
        for topic in _latest(hosts).topics.values()
        for index, each in enumerate(topic.partitions)
        if each.adding_replicas or each.removing_replicas
    ]


def _shared_machines(hosts: Sequence[Host]) -> list[str]:
    image = _latest(hosts)
    found = [
        (f"{topic.name}-{index}", sharing(each.replicas, image))
        for topic in image.topics.values()
        for index, each in enumerate(topic.partitions)
    ]
    return [f"{name}: {problem}" for name, problem in found if problem is not None]
