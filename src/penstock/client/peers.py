"""Connections to the other nodes, one for each node and purpose, opened when first needed.

Each purpose has its own connection, so that a heartbeat never waits behind a fetch. After a failed attempt the next
one waits a little, longer each time, which slows down callers that retry in a loop. A node's address is looked up for
every request, so that a node with a new address is found. Goes to `connection.py`.
Raises: PeerUnavailable; PeerGone when the connection is refused.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from penstock.client.connection import PeerConnection
from penstock.client.interfaces import DEFAULT_PURPOSE, PeerGone, PeerUnavailable
from penstock.client.waiting import retrieve_exception
from penstock.ports.clock import Clock
from penstock.ports.network import Connection, Dialer, Session

T = TypeVar("T")

Address = tuple[str, int]
AddressOf = Callable[[int], Address | None]

BACKOFF_S_MIN: Final = 0.02
BACKOFF_S_MAX: Final = 0.5
GREETING_S_MAX: Final = 5.0


class Peers:
    def __init__(self, *, network: Dialer, clock: Clock, random: Random, address_of: AddressOf, client_id: str) -> None:
        self._network = network
        self._clock = clock
        self._random = random
        self._address_of = address_of
        self._client_id = client_id
        self._links: dict[tuple[int, str], _Link] = {}
        self._closed = False

    async def ask(
        self, node: int, api_key: int, request: Any, *, timeout_s: float, purpose: str = DEFAULT_PURPOSE
    ) -> Any:
        deadline = self._clock.monotonic() + timeout_s
        connection = await self._connected(node, purpose, deadline)
        return await connection.ask(api_key, request, timeout_s=self._left(deadline))

    async def version(self, node: int, api_key: int, *, timeout_s: float, purpose: str = DEFAULT_PURPOSE) -> int:
        connection = await self._connected(node, purpose, self._clock.monotonic() + timeout_s)
        return connection.version(api_key)

    async def ask_raw(
        self,
        node: int,
        frame: bytearray,
        *,
        timeout_s: float,
        read: Callable[[memoryview], T],
        purpose: str = DEFAULT_PURPOSE,
    ) -> T:
        deadline = self._clock.monotonic() + timeout_s
        connection = await self._connected(node, purpose, deadline)
        return await connection.ask_raw(frame, read=read, timeout_s=self._left(deadline))

    async def probe(self, node: int, *, timeout_s: float) -> None:
        """Connect once, then close the connection."""
        outcome_known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The caller may have stopped waiting when the outcome arrives.
        outcome_known.add_done_callback(retrieve_exception)

        def opened(outcome: Connection | OSError) -> Session | None:
            if outcome_known.done():
                return None
            if isinstance(outcome, OSError):
                outcome_known.set_exception(_no_connection(node, outcome))
            else:
                outcome_known.set_result(None)
            return None

        self._network.connect(*self._find(node), opened)
        await _in_time(self._clock, outcome_known, self._clock.monotonic() + timeout_s)

    def forget(self, node: int) -> None:
        """Close the connections to a node."""
        for (known, _), link in list(self._links.items()):
            if known == node:
                link.close()

    def close(self) -> None:
        """Close all connections, and open no new ones."""
        self._closed = True
        for link in list(self._links.values()):
            link.close()
        self._links.clear()

    def _left(self, deadline: float) -> float:
        return max(0.0, deadline - self._clock.monotonic())

    def _find(self, node: int) -> Address:
        if self._closed:
            raise PeerUnavailable("this node is stopping")
        address = self._address_of(node)
        if address is None:
            raise PeerUnavailable(f"the address of node {node} is unknown")
        return address

    async def _connected(self, node: int, purpose: str, deadline: float) -> PeerConnection:
        address = self._find(node)
        link = self._links.get((node, purpose))
        if link is None or link.address != address:
            if link is not None:
                link.close()
            link = _Link(node, address, self._network, self._clock, self._random, self._client_id)
            self._links[node, purpose] = link
        if link.connection is not None:
            return link.connection
        return await _in_time(self._clock, link.open(), deadline)


class _Link:
    """A connection to one address for one purpose, or the attempt to open one, or neither."""

    def __init__(
        self, node: int, address: Address, network: Dialer, clock: Clock, random: Random, client_id: str
    ) -> None:
        self.node = node
        self.address = address
        self.connection: PeerConnection | None = None
        self._network = network
        self._clock = clock
        self._random = random
        self._client_id = client_id
        self._opening: asyncio.Future[PeerConnection] | None = None
        self._trying: PeerConnection | None = None
        self._failures = 0
        self._not_before = 0.0
        self._closed = False

    def open(self) -> "asyncio.Future[PeerConnection]":
        """Return the attempt under way, or start a new one after the pause that follows a failed attempt."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_future()
            # The caller may have stopped waiting when the attempt fails.
            self._opening.add_done_callback(retrieve_exception)
            pause = self._not_before - self._clock.monotonic()
            if pause > 0:
                self._clock.call_later(pause, self._dial)
            else:
                self._dial()
        return self._opening

    def _dial(self) -> None:
        if not self._closed:
            self._network.connect(*self.address, self._opened)

    def _opened(self, outcome: Connection | OSError) -> Session | None:
        if isinstance(outcome, OSError):
            self._failed(_no_connection(self.node, outcome))
            return None
        if self._closed:
            return None
        peer = PeerConnection(outcome, self._clock, client_id=self._client_id, on_lost=self._connection_lost)
        self._trying = peer
        peer.greet(timeout_s=GREETING_S_MAX).add_done_callback(partial(self._greeted, peer))
        return peer

    def _greeted(self, peer: PeerConnection, greeting: "asyncio.Future[None]") -> None:
        error = None if greeting.cancelled() else greeting.exception()
        if self._trying is not peer:
            return
        self._trying = None
        if error is None and peer.is_lost:
            # It broke after the response arrived but before this callback ran, so no other callback reports it.
            error = PeerUnavailable("the connection broke")
        if error is not None:
            peer.close()
            self._failed(PeerUnavailable(f"node {self.node} does not answer: {error}"))
            return
        self._failures = 0
        self.connection = peer
        if self._opening is not None:
            opening, self._opening = self._opening, None
            opening.set_result(peer)

    def _failed(self, error: PeerUnavailable) -> None:
        pause = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._not_before = self._clock.monotonic() + pause * (0.75 + self._random.random() / 2)
        if self._opening is not None:
            opening, self._opening = self._opening, None
            opening.set_exception(error)

    def _connection_lost(self) -> None:
        # Requests in flight fail with the connection; the next request opens a new one.
        self.connection = None

    def close(self) -> None:
        self._closed = True
        for peer in (self.connection, self._trying):
            if peer is not None:
                peer.close()
        self._trying = None
        self._failed(PeerUnavailable("this node closed the connection"))


def _no_connection(node: int, error: OSError) -> PeerUnavailable:
    if isinstance(error, ConnectionRefusedError):
        return PeerGone(f"node {node} is gone: its address refuses connections")
    return PeerUnavailable(f"node {node} cannot be reached: {error}")


async def _in_time(clock: Clock, shared: "asyncio.Future[T]", deadline: float) -> T:
    """Wait for a future that other callers may wait for too: a timeout does not cancel it."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: Any = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    shared.add_done_callback(wake)
    timer = clock.call_later(max(0.0, deadline - clock.monotonic()), wake)
    try:
        await waiter
    finally:
        timer.cancel()
        shared.remove_done_callback(wake)
    if not shared.done():
        raise PeerUnavailable("no connection within the timeout")
    return shared.result()
