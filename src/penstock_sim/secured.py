"""Secured clusters: clients log in with SCRAM, nodes authenticate each other, and intruders try to get in.

A secured seed has two listeners: CLIENTS with SASL, and NODES with simulated certificates (certificates.py). The
intruder is a client with a valid login. It complains if a node answers a request that only nodes may send, a request
after the session has expired, or one that follows a failed login or a login as another user.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any, Final

from penstock.client.login import SecuredDialer
from penstock.ports.network import Connection
from penstock.security.bootstrap import make_first_users, render_first_users
from penstock.security.scram import SALT_SIZE, ScramClient, salted_password
from penstock.wire.api import ApiKey
from penstock_sim import requests
from penstock_sim.client import Client, Shared
from penstock_sim.clock import SimClock
from penstock_sim.network import NetworkPort

MECHANISM: Final = "SCRAM-SHA-256"
USER, OTHER_USER, NOBODY, PASSWORD = "client", "other", "nobody", "secret"
ANSWER_S_MAX: Final = 3.0
TOPIC_DENIED, CLUSTER_DENIED = 29, 31
LATEST: Final = -1


@cache
def _first_users() -> str:
    # Derived once for all seeds: it takes milliseconds.
    users = [
        user
        for name in (USER, OTHER_USER)
        for user in make_first_users(name, PASSWORD, [b"s" * SALT_SIZE, b"t" * SALT_SIZE])
    ]
    return render_first_users(users)


def node_options(name: str, port: int, nodes: int, lifetime_ms: int) -> dict[str, str]:
    """Return the options of a secured node."""
    return {
        "listeners": f"CLIENTS://{name}:{port},NODES://{name}:{port + 1}",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,NODES:SSL",
        "inter.broker.listener.name": "NODES",
        "listener.name.nodes.ssl.client.auth": "required",
        "ssl.keystore.key": "key",
        "ssl.keystore.certificate.chain": "node",
        "ssl.truststore.certificates": "node",
        "sasl.enabled.mechanisms": MECHANISM,
        "bootstrap.scram.credentials": _first_users(),
        "connections.max.reauth.ms": str(lifetime_ms),
        "controller.quorum.voters": ",".join(f"{index}@node{index}:{port + 1}" for index in range(1, nodes + 1)),
    }


# Thousands of connections would take minutes.
_derive = cache(salted_password)


class _Intruding(ScramClient):
    """A client that does not ask the server for a proof: it does not know the password either."""

    def _verify(self, text: str, expected: bytes) -> None:
        return


def _login(user: str, password: str, random: Random) -> ScramClient:
    return (ScramClient if password == PASSWORD and user != NOBODY else _Intruding)(
        MECHANISM, user, password, nonce=random.randbytes(12).hex(), derive=_derive
    )


def dialer(client: Client, *, user: str = USER, password: str = PASSWORD) -> SecuredDialer:
    """Return what opens the connections of a client."""
    random = Random(f"{client.shared.seed}:{client.name}:{user}:nonce")
    return SecuredDialer(
        NetworkPort(client.shared.hub, client.owner, client.name),
        SimClock(client.loop, client.owner),
        client_id=client.name,
        tls=None,
        mechanism=MECHANISM,
        start_login=lambda: _login(user, password, random),
    )


class _Wire:
    """The session of the intruder: collects frames, and knows when the connection has ended."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.expected = b""
        self.connection: Connection | None = None
        self.changed: asyncio.Event = asyncio.Event()
        self.is_lost = False

    def frame(self, frame: memoryview) -> None:
        # Not a late response to an earlier request.
        if frame[:4] == self.expected:
            self.frames.append(bytes(frame))
            self.changed.set()

    def lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.changed.set()


class Intruder(Client):
    """A client that tries what it may not do."""

    def __init__(self, shared: Shared, name: str, *, lifetime_ms: int, topics: list[str]) -> None:
        super().__init__(shared, name)
        self._topic_names = topics
        self._lifetime_s = lifetime_ms / 1000

    async def run(self) -> None:
        attempts = [self._act_as_node, self._guess]
        if self._lifetime_s:
            attempts += [self._outlive, self._change_user]
        while not self.shared.stopping:
            await self.random.choice(attempts)()
            await self.sleep(0.5 + self.random.random() * 2)

    async def _open(self, **login: str) -> _Wire | None:
        wire = _Wire()
        opened: asyncio.Future[None] = self.loop.create_future()

        def on_open(outcome: Connection | OSError) -> _Wire | None:
            if not opened.done():
                opened.set_result(None)
            if isinstance(outcome, OSError):
                return None
            wire.connection = outcome
            return wire

        dialer(self, **login).connect(*self.random.choice(self.shared.bootstrap), on_open)
        await asyncio.wait((opened,), timeout=15.0)
        return None if wire.connection is None else wire

    async def _is_answered(self, wire: _Wire, api_key: int, version: int, **values: Any) -> bool:
        """Send a request; return whether there is a response. It is then in `frames`."""
        assert wire.connection is not None
        wire.frames.clear()
        wire.changed.clear()
        self._correlation += 1
        wire.expected = self._correlation.to_bytes(4, "big")
        request = requests.entity(api_key, version, **values)
        wire.connection.send((requests.frame(api_key, version, self._correlation, "penstock-node-1", request),))
        waiting = asyncio.ensure_future(wire.changed.wait())
        await asyncio.wait((waiting,), timeout=ANSWER_S_MAX)
        waiting.cancel()
        return bool(wire.frames)

    async def _act_as_node(self) -> None:
        wire = await self._open(user=OTHER_USER)
        if wire is None:
            return
        victim = self.random.choice((1, 2, 3))
        if self.random.random() < 0.5:
            api_key, version = ApiKey.BROKER_HEARTBEAT, 1
            values: dict[str, Any] = {"broker_id": victim, "broker_epoch": -1, "want_fence": True}
        else:
            topic = self.random.choice(self._topic_names)
            api_key, version = ApiKey.FETCH, 12
            values = _replica_fetch(victim, topic, await self._end_of(wire, topic))
        if wire.is_lost:
            return
        if await self._is_answered(wire, api_key, version, **values) and not _is_denied(
            api_key, version, wire.frames[0]
        ):
            self.complain("inv_54: a node answered a client that acts as a node")
        self._close(wire)

    async def _end_of(self, wire: _Wire, topic: str) -> int:
        """Return the end of a log: a replica that has it belongs into the ISR, so the leader must not believe it."""
        asked = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": -1}]}
        if not await self._is_answered(wire, ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[asked]):
            return 0
        _, body = requests.answer(ApiKey.LIST_OFFSETS, 7, memoryview(wire.frames[0]))
        return max(int(body.topics[0].partitions[0].offset), 0)

    async def _guess(self) -> None:
        wire = await self._open(password="guess") if self.random.random() < 0.5 else await self._open(user=NOBODY)
        if wire is not None:
            self.complain("inv_55: a wrong login was accepted")
            self._close(wire)

    async def _outlive(self) -> None:
        wire = await self._open()
        if wire is None:
            return
        # Clocks of nodes run at different rates, and a node may be paused.
        await self.sleep(self._lifetime_s * 1.2 + 0.5)
        if not wire.is_lost and await self._is_answered(wire, ApiKey.API_VERSIONS, 0):
            self.complain("inv_55: a request was answered after its session had expired")
        self._close(wire)

    async def _change_user(self) -> None:
        """Authenticate again as another user, on the same connection."""
        wire = await self._open()
        if wire is None:
            return
        await self.sleep(1.5)
        if wire.is_lost or not await self._is_answered(wire, ApiKey.SASL_HANDSHAKE, 1, mechanism=MECHANISM):
            self._close(wire)
            return
        exchange = _login(OTHER_USER, PASSWORD, self.random)
        token: bytes | None = exchange.first()
        code = 0
        while token is not None and not code:
            if not await self._is_answered(wire, ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=token):
                break
            _, body = requests.answer(ApiKey.SASL_AUTHENTICATE, 1, memoryview(wire.frames[0]))
            code = int(body.error_code)
            token = None if code else exchange.step(body.auth_bytes)
        if token is None and not code:
            self.complain("inv_55: a connection changed its user")
        self._close(wire)

    def _close(self, wire: _Wire) -> None:
        if wire.connection is not None and not wire.is_lost:
            wire.connection.close()


def _replica_fetch(node_id: int, topic: str, end: int) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": end, "partition_max_bytes": 1000}
    return {
        "replica_id": node_id,
        "max_wait": timedelta(0),
        "min_bytes": 0,
        "max_bytes": 1000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
        "forgotten_topics_data": [],
    }


def _is_denied(api_key: int, version: int, frame: bytes) -> bool:
    """Return whether a response says that the client may not act as a node, as with an authorizer."""
    _, body = requests.answer(api_key, version, memoryview(frame))
    if api_key == ApiKey.BROKER_HEARTBEAT:
        return int(body.error_code) == CLUSTER_DENIED
    return [int(each.error_code) for topic in body.responses for each in topic.partitions] == [TOPIC_DENIED]
