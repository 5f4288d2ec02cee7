"""Connections to the other nodes, one for each node and purpose, opened when first needed.

A purpose has a connection of its own so that a heartbeat never waits behind a fetch. After a failed attempt the next
one waits a little, longer each time: whoever asks in a loop is slowed down here. Where a node lives is looked up for
every question, so a node that has moved is found. Goes to `connection.py`.
Raises: PeerUnavailable; PeerGone when the connection is refused.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from penstock.client.connection import PeerConnection
from penstock.client.interfaces import ASKING, PeerGone, PeerUnavailable
from penstock.client.waiting import look_at
from penstock.ports.clock import Clock
from penstock.ports.network import Connection, Network, Session

T = TypeVar("T")

Address = tuple[str, int]
AddressOf = Callable[[int], Address | None]

BACKOFF_S_MIN: Final = 0.02
BACKOFF_S_MAX: Final = 0.5
GREETING_S_MAX: Final = 5.0


class Peers:
    def __init__(
        self, *, network: Network, clock: Clock, random: Random, address_of: AddressOf, client_id: str
    ) -> None:
        self._network = network
        self._clock = clock
        self._random = random
        self._address_of = address_of
        self._client_id = client_id
        self._links: dict[tuple[int, str], _Link] = {}
        self._closed = False

    async def ask(self, node: int, api_key: int, request: Any, *, timeout_s: float, purpose: str = ASKING) -> Any:
        deadline = self._clock.monotonic() + timeout_s
        connection = await self._connected(node, purpose, deadline)
        return await connection.ask(api_key, request, timeout_s=self._left(deadline))

    async def version(self, node: int, api_key: int, *, timeout_s: float, purpose: str = ASKING) -> int:
        connection = await self._connected(node, purpose, self._clock.monotonic() + timeout_s)
        return connection.version(api_key)

    async def ask_raw(
        self, node: int, frame: bytearray, *, timeout_s: float, read: Callable[[memoryview], T], purpose: str = ASKING
    ) -> T:
        deadline = self._clock.monotonic() + timeout_s
        connection = await self._connected(node, purpose, deadline)
        return await connection.ask_raw(frame, read=read, timeout_s=self._left(deadline))

    async def probe(self, node: int, *, timeout_s: float) -> None:
        """Connect once, now, and hang up."""
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Nobody waits any more for an answer that comes too late.
        heard.add_done_callback(look_at)

        def opened(outcome: Connection | OSError) -> Session | None:
            if heard.done():
                return None
            if isinstance(outcome, OSError):
                heard.set_exception(_no_connection(node, outcome))
            else:
                heard.set_result(None)
            return None

        self._network.connect(*self._find(node), opened)
        await _in_time(self._clock, heard, self._clock.monotonic() + timeout_s)

    def forget(self, node: int) -> None:
        """Hang up on a node."""
        for (known, _), link in list(self._links.items()):
            if known == node:
                link.close()

    def close(self) -> None:
        """Hang up on everybody, for good."""
        self._closed = True
        for link in list(self._links.values()):
            link.close()
        self._links.clear()

    def _left(self, deadline: float) -> float:
        return max(0.0, deadline - self._clock.monotonic())

    def _find(self, node: int) -> Address:
        if self._closed:
            raise PeerUnavailable("this node stops")
        address = self._address_of(node)
        if address is None:
            raise PeerUnavailable(f"nobody knows where node {node} is")
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
    """The way to one address for one purpose: a connection, or the attempt at one, or nothing."""

    def __init__(
        self, node: int, address: Address, network: Network, clock: Clock, random: Random, client_id: str
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
        """The attempt under way, or a new one, which begins when the pause after the last is over."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_future()
            # Nobody may be waiting any more when it fails.
            self._opening.add_done_callback(look_at)
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
        peer = PeerConnection(outcome, self._clock, client_id=self._client_id, on_lost=self._hung_up)
        self._trying = peer
        peer.greet(timeout_s=GREETING_S_MAX).add_done_callback(partial(self._greeted, peer))
        return peer

    def _greeted(self, peer: PeerConnection, greeting: "asyncio.Future[None]") -> None:
        error = None if greeting.cancelled() else greeting.exception()
        if self._trying is not peer:
            return
        self._trying = None
        if error is None and peer.is_lost:
            # It broke between the answer and the news of it: nobody will say so again.
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

    def _hung_up(self) -> None:
        # What was under way on it fails with it; the next question opens another.
        self.connection = None

    def close(self) -> None:
        self._closed = True
        for peer in (self.connection, self._trying):
            if peer is not None:
                peer.close()
        self._trying = None
        self._failed(PeerUnavailable("the connection was given up here"))


def _no_connection(node: int, error: OSError) -> PeerUnavailable:
    if isinstance(error, ConnectionRefusedError):
        return PeerGone(f"node {node} is gone: nobody listens at its address")
    return PeerUnavailable(f"node {node} cannot be reached: {error}")


async def _in_time(clock: Clock, shared: "asyncio.Future[T]", deadline: float) -> T:
    """Wait for a future that others may wait for too: giving up on it does not cancel it."""
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
        raise PeerUnavailable("no connection in time")
    return shared.result()
