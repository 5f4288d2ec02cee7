"""A small client over the simulated network: connections, metadata, leaders, coordinators.

Requests are coroutines of the client's owner, so a client can be paused or killed like a node. `Lost` means that no
response will arrive; whether the request was executed is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from operator import itemgetter
from random import Random
from typing import Any
from uuid import UUID

from penstock.ports.network import Connection, Dialer
from penstock.wire.api import ApiKey
from penstock_sim import requests
from penstock_sim.history import History, PartitionId
from penstock_sim.loop import Owner, SimLoop
from penstock_sim.network import Hub, NetworkPort

REQUEST_S_MAX = 6.0
BACKOFF_S = 0.15
UNKNOWN_TOPIC = 3
NO_LEADER = 5

# The error codes after which a client looks up the leader again.
STALE_LEADER = frozenset({3, 5, 6, 9, 74, 75, 100, 103})


class Lost(Exception):
    """No response will arrive."""


class Unavailable(Exception):
    """The request could not be sent."""


class Link:
    """One connection to a node; responses arrive in the order of the requests."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.connection: Connection | None = None
        self.pending: dict[int, tuple[int, int, asyncio.Future[Any]]] = {}
        self.lost_for_good = False

    def frame(self, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        first = next(iter(self.pending), None)
        if first != correlation_id:
            self._client.complain(f"response {correlation_id} arrived before {first}")
            return
        api_key, version, future = self.pending.pop(correlation_id)
        _, body = requests.answer(api_key, version, frame)
        if not future.done():
            future.set_result(body)

    def lost(self, error: Exception | None) -> None:
        self.lost_for_good = True
        pending, self.pending = self.pending, {}
        for _, _, future in pending.values():
            if not future.done():
                future.set_exception(Lost(f"connection lost: {error}"))


@dataclass(slots=True)
class TopicView:
    topic_id: UUID
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Leader and leader epoch by partition."""


@dataclass(slots=True)
class Shared:
    """State that all clients of a simulation share."""

    loop: SimLoop
    hub: Hub
    history: History
    bootstrap: list[tuple[str, int]]
    complaints: list[str]
    seed: str
    stopping: bool = False
    late: list[tuple[bytes, tuple[str, int]]] = field(default_factory=list)
    """Requests of idempotent and transactional producers, to be repeated when they are long outdated."""
    dialer: Callable[[Client], Dialer] | None = None
    """Opens the connections of clients on a secured cluster."""


class Client:
    def __init__(self, shared: Shared, name: str) -> None:
        self.shared = shared
        self.loop = shared.loop
        self.history = shared.history
        self.name = name
        self.random = Random(f"{shared.seed}:{name}")
        self.owner: Owner = shared.loop.owner(name)
        self._port = NetworkPort(shared.hub, self.owner, name)
        self._links: dict[tuple[str, int], Link] = {}
        self._opening: dict[tuple[str, int], asyncio.Future[Link]] = {}
        self._correlation = 0
        self.addresses: dict[int, tuple[str, int]] = {}
        self.topics: dict[str, TopicView] = {}
        self._newest_leaders: dict[tuple[UUID, int], tuple[int, int]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def _dialer(self) -> Dialer:
        """Return what opens connections: the network, or on a secured cluster one that logs in."""
        return self._port if self.shared.dialer is None else self.shared.dialer(self)

    # -- requests --------------------------------------------------------------------------

    def complain(self, what: str) -> None:
        self.shared.complaints.append(f"{self.name}: {what}")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def ask(
        self,
        address: tuple[str, int],
        api_key: int,
        version: int,
        *,
        timeout_s: float = REQUEST_S_MAX,
        may_be_late: bool = False,
        **values: Any,
    ) -> Any:
        link = await self._link(address)
        return await self.ask_on(
            link, address, api_key, version, timeout_s=timeout_s, may_be_late=may_be_late, **values
        )

    def ask_on(
        self,
        link: Link,
        address: tuple[str, int],
        api_key: int,
        version: int,
        *,
        timeout_s: float = REQUEST_S_MAX,
        may_be_late: bool = False,
        **values: Any,
    ) -> asyncio.Future[Any]:
        """Send immediately; the future receives the response."""
        future: asyncio.Future[Any] = self.loop.create_future()
        if link.lost_for_good or link.connection is None:
            future.set_exception(Lost("connection lost before"))
            return future
        self._correlation += 1
        number = self._correlation
        request = requests.entity(api_key, version, **values)
        data = requests.frame(api_key, version, number, self.name, request)
        link.pending[number] = (api_key, version, future)
        link.connection.send((data,))
        if may_be_late and len(self.shared.late) < 200:
            self.shared.late.append((data, address))
        timer = self.loop.call_later(timeout_s, self._timed_out, link, address)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    def fire_and_forget(self, link: Link, api_key: int, version: int, **values: Any) -> None:
        """Send a request that has no response."""
        if link.connection is not None and not link.lost_for_good:
            self._correlation += 1
            request = requests.entity(api_key, version, **values)
            link.connection.send((requests.frame(api_key, version, self._correlation, self.name, request),))

    def _timed_out(self, link: Link, address: tuple[str, int]) -> None:
        if self._links.get(address) is link:
            del self._links[address]
        if link.connection is not None:
            link.connection.close()

    async def link_to(self, address: tuple[str, int]) -> Link:
        return await self._link(address)

    async def _link(self, address: tuple[str, int]) -> Link:
        link = self._links.get(address)
        if link is not None and not link.lost_for_good:
            return link
        opening = self._opening.get(address)
        if opening is None:
            opening = self._opening[address] = self.loop.create_future()
            link = Link(self)
            self._dialer().connect(address[0], address[1], self._opened(address, link, opening))
        return await asyncio.shield(opening)

    def _opened(
        self, address: tuple[str, int], link: Link, opening: asyncio.Future[Link]
    ) -> Callable[[Connection | OSError], Link | None]:
        def opened(connection: Connection | OSError) -> Link | None:
            self._opening.pop(address, None)
            if isinstance(connection, OSError):
                opening.set_exception(Unavailable(str(connection)))
                opening.exception()
                return None
            link.connection = connection
            self._links[address] = link
            opening.set_result(link)
            return link

        return opened

    # -- discovery -------------------------------------------------------------------------

    async def refresh(self, *names: str) -> None:
        """Fetch metadata from any node. Raises Lost or Unavailable."""
        known = [*self.addresses.values()] or self.shared.bootstrap
        address = self.random.choice(known if self.random.random() < 0.7 else self.shared.bootstrap)
        reply = await self.ask(
            address,
            ApiKey.METADATA,
            12,
            topics=[{"topic_id": None, "name": name} for name in names],
            allow_auto_topic_creation=False,
        )
        for broker in reply.brokers:
            self.addresses[int(broker.node_id)] = (broker.host, broker.port)
        for topic in reply.topics:
            if int(topic.error_code) == 0 and topic.topic_id is not None:
                view = self.topics[topic.name] = TopicView(topic.topic_id)
                for part in topic.partitions:
                    key, leader = (topic.topic_id, part.partition_index), (int(part.leader_id), part.leader_epoch)
                    # A node that is cut off returns old metadata, which real clients ignore as well (KIP-320).
                    newest = max(leader, self._newest_leaders.get(key, leader), key=itemgetter(1))
                    self._newest_leaders[key] = view.leaders[part.partition_index] = newest
            elif int(topic.error_code) == UNKNOWN_TOPIC:
                self.topics.pop(topic.name, None)

    async def leader_of(self, topic: str, partition: int) -> tuple[tuple[str, int], int, PartitionId]:
        """Return the address and epoch of the leader. Raises Lost or Unavailable."""
        if topic not in self.topics:
            await self.refresh(topic)
        view = self.topics.get(topic)
        if view is None or partition not in view.leaders:
            raise Unavailable(f"{topic} is not known")
        leader, epoch = view.leaders[partition]
        if leader not in self.addresses:
            self.topics.pop(topic, None)
            raise Unavailable(f"{topic}-{partition} has no leader")
        return self.addresses[leader], epoch, PartitionId(topic, view.topic_id.hex, partition)

    def forget(self, topic: str) -> None:
        self.topics.pop(topic, None)

    async def coordinator(self, key_type: int, key: str) -> tuple[str, int]:
        """Return the address of the coordinator of a group (0) or a transactional id (1)."""
        found = self._coordinators.get((key_type, key))
        if found is None:
            address = self.random.choice([*self.addresses.values()] or self.shared.bootstrap)
            reply = await self.ask(address, ApiKey.FIND_COORDINATOR, 5, key_type=key_type, coordinator_keys=[key])
            (one,) = reply.coordinators
            if int(one.error_code):
                raise Unavailable(f"no coordinator: {one.error_code}")
            found = self._coordinators[key_type, key] = int(one.node_id)
            self.addresses[found] = (one.host, one.port)
        return self.addresses[found]

    def forget_coordinator(self, key_type: int, key: str) -> None:
        self._coordinators.pop((key_type, key), None)

    @property
    def now(self) -> float:
        return self.loop.now

    @property
    def stopping(self) -> bool:
        return self.shared.stopping

    async def backoff(self) -> None:
        await asyncio.sleep(BACKOFF_S * (0.5 + self.random.random()))


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)
