"""Several nodes in one process, on real sockets and disks, which a test can stop, kill and restart."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from penstock.config.settings import BrokerSettings
from penstock.metadata.quorum import Quorum
from penstock.node import Node
from penstock.ports.real import RealClock, RealDisk, RealEntropy, RealNetwork
from tests.support.eventually import eventually_here
from tests.support.ports import HOST, free_ports

CLUSTER_ID = "tests-cluster-abcdefgh"


class Member:
    """One node, whose settings and data directory survive restarts."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = dict(settings)
        self._node: Node | None = None
        self._network: RealNetwork | None = None

    @property
    def node(self) -> Node:
        assert self._node is not None, "the node is not running"
        return self._node

    @property
    def quorum(self) -> Quorum:
        return self.node.context.quorum

    @property
    def address(self) -> str:
        return self.settings["listeners"].removeprefix("PLAINTEXT://")

    async def start(self) -> None:
        self._network = RealNetwork()
        node = Node(
            BrokerSettings.load(overrides=self.settings),
            clock=RealClock(),
            entropy=RealEntropy(),
            disk=RealDisk(),
            network=self._network,
        )
        await node.start()
        self._node = node

    async def stop(self) -> None:
        if self._node is not None:
            node, self._node = self._node, None
            await node.stop()
            assert self._network is not None
            self._network.stop()

    def kill(self) -> None:
        """Simulate a killed process: ports closed, connections reset, no controlled shutdown."""
        node, self._node = self.node, None
        assert self._network is not None
        node.abandon()
        self._network.stop()


class Cluster:
    def __init__(self, folder: Path, *, voters: int = 3, observers: int = 0, **settings: str) -> None:
        ports = free_ports(voters + observers)
        listed = ",".join(f"{index + 1}@{HOST}:{port}" for index, port in enumerate(ports[:voters]))
        self.members = {
            index + 1: Member({
                "node.id": str(index + 1),
                "cluster.id": CLUSTER_ID,
                "log.dirs": str(folder / str(index + 1)),
                "listeners": f"PLAINTEXT://{HOST}:{port}",
                "controller.quorum.voters": listed,
                "process.roles": "broker,controller" if index < voters else "broker",
                "log.reserve.bytes": "0",
                **{name.replace("_", "."): value for name, value in settings.items()},
            })
            for index, port in enumerate(ports)
        }  # fmt: skip

    async def start(self) -> None:
        await asyncio.gather(*(member.start() for member in self.members.values()))

    def kill(self) -> None:
        """Stop all nodes together: stopped one by one, the last ones would wait for a controller that is gone."""
        for member in self.running:
            member.kill()

    async def __aenter__(self) -> "Cluster":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()

    @property
    def running(self) -> list[Member]:
        return [member for member in self.members.values() if member._node is not None]

    @property
    def active(self) -> Member | None:
        return next((member for member in self.running if member.quorum.is_active), None)

    async def until_active(self) -> Member:
        await eventually_here(lambda: self.active is not None)
        assert self.active is not None
        return self.active

    async def until_agreed(self) -> None:
        """Return whether all running nodes have applied the same metadata."""
        await eventually_here(lambda: len({member.quorum.image.offset for member in self.running}) == 1)

    @property
    def bootstrap(self) -> str:
        return ",".join(member.address for member in self.running)
