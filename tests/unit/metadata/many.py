"""Several in-memory quorums: simulated disks, a manual clock, and connections that can be cut."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID

from penstock.client.interfaces import PeerGone, PeerUnavailable
from penstock.config.settings import BrokerSettings
from penstock.handlers.support import metadata_fetch
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.registry import COLD
from penstock.handlers.support.reply import Parked
from penstock.metadata.quorum import Quorum
from penstock.model.ids import NodeId
from penstock.ports.network import FileSlice
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import Header, parse_header, parse_response_header, request_head
from penstock_sim.disk import SimDisk
from tests.unit.metadata.world import FEATURES, TestClock, settle

T = TypeVar("T")
CLUSTER = "the-cluster"


class _Peers:
    """The requests of one node to the others, through the codec and their handlers, unless the connection is cut."""

    def __init__(self, world: "Many", node: int) -> None:
        self._world = world
        self._node = node

    async def ask(self, node: NodeId, api_key: int, request: Any, *, timeout_s: float, purpose: str = "") -> Any:
        await asyncio.sleep(0)
        world = self._world
        if frozenset((self._node, node)) in world.cut:
            raise PeerUnavailable("the connection is cut")
        if node not in world.quorums:
            raise PeerGone(f"node {node} is gone")
        version = APIS[api_key].max_version
        body = codec.write_request(api_key, version, request)
        frame = memoryview(bytearray(request_head(api_key, version, 0, "test", len(body))[4:] + body))
        answer = await world.answer(node, frame)
        if frozenset((self._node, node)) in world.cut:
            raise PeerUnavailable("the connection is cut")
        return answer

    def close(self) -> None: ...


class Many:
    def __init__(self, voters: int, **options: str) -> None:
        self.clock = TestClock()
        self.disks = {index: SimDisk() for index in range(1, voters + 1)}
        self.quorums: dict[int, Quorum] = {}
        self.cut: set[frozenset[int]] = set()
        self.options = {
            "controller.quorum.voters": ",".join(f"{index}@host:{index}" for index in self.disks),
            **{name.replace("_", "."): value for name, value in options.items()},
        }

    async def start(self, *nodes: int) -> None:
        for node in nodes or tuple(self.disks):
            disk = self.disks[node]
            disk.make_folder("/data")
            disk.sync_folder("/")
            quorum = await Quorum.open(
                disk=disk,
                clock=self.clock,
                random=Random(node),
                data_folder="/data",
                node_id=NodeId(node),
                directory_id=UUID(int=node),
                settings=BrokerSettings(self.options),
                initial_features=FEATURES,
                cluster_id=CLUSTER,
            )
            quorum.peers = quorum.messenger._peers = _Peers(self, node)  # type: ignore[assignment]
            self.quorums[node] = quorum

    def crash(self, node: int) -> None:
        quorum = self.quorums.pop(node)
        quorum.abandon()
        self.disks[node].crash(Random(node))

    def isolate(self, node: int) -> None:
        self.cut = {frozenset((node, other)) for other in self.disks if other != node}

    async def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.05)):
            self.clock.advance(0.05)
            await settle()

    async def until_active(self, *, among: Callable[[int], bool] = lambda node: True) -> Quorum:
        for _ in range(400):
            found = [quorum for node, quorum in self.quorums.items() if quorum.is_active and among(node)]
            if found:
                return found[0]
            await self.pass_time(0.05)
        raise AssertionError("no node became the active controller")

    async def answer(self, node: int, frame: memoryview) -> Any:
        header = parse_header(frame)
        quorum = self.quorums[node]
        context: Any = _Context(quorum, self.disks[node], self.clock)
        if header.api_key == ApiKey.FETCH:
            return await self._fetch(context, frame, header)
        body = codec.read_request(header.api_key, header.version, frame[header.body_position :])
        entity = await COLD[header.api_key](context, Request(header, body, cast(Any, None)))
        written = codec.write_response(header.api_key, header.version, entity)
        return codec.read_response(header.api_key, header.version, written)

    async def _fetch(self, context: Context, frame: memoryview, header: Header) -> Any:
        parked = metadata_fetch.handle(context, frame, header)
        ready = asyncio.get_running_loop().create_future()
        if parked.parts is None:
            parked.on_ready = lambda: None if ready.done() else ready.set_result(None)
            await ready
        data = memoryview(bytearray().join(_bytes(part) for part in _parts(parked)))[4:]
        _, position = parse_response_header(header.api_key, header.version, data)
        return codec.read_response(header.api_key, header.version, data[position:])


def _parts(parked: Parked) -> Any:
    assert parked.parts is not None
    return parked.parts


def _bytes(part: Any) -> bytes:
    return part.file.read(part.size, part.position) if isinstance(part, FileSlice) else bytes(part)


class _Context:
    """The part of a context that the handlers of the quorum use."""

    def __init__(self, quorum: Quorum, disk: SimDisk, clock: TestClock) -> None:
        self.quorum = quorum
        self.cluster_id = CLUSTER
        self.node_id = quorum.node_id
        self.disk = disk
        self.clock = clock
