"""Delegation tokens: a user creates, renews and expires tokens, and logs in with them, also too late.

A login is compared with the images that the node had between its beginning and its end. The user complains if a login
succeeds although no image had the token, or the token had expired by the node's clock; if a login is rejected although
all images had the token, and it had not expired; and if a node answers requests after the token has expired.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Final, NamedTuple

from penstock.client.login import LoginFailed, SecuredDialer
from penstock.ports.network import Connection, Dialer
from penstock.security.scram import ScramClient
from penstock.wire.api import ApiKey
from penstock_sim import requests, secured
from penstock_sim.client import Client, Lost, Shared, Unavailable, seconds
from penstock_sim.clock import SimClock
from penstock_sim.host import Host
from penstock_sim.network import NetworkPort
from penstock_sim.timeline import Timeline

OPTIONS: Final = {
    "delegation.token.secret.key": "the key of tokens",
    "delegation.token.max.lifetime.ms": "20000",
    "delegation.token.expiry.time.ms": "5000",
    "delegation.token.expiry.check.interval.ms": "4000",
}
KEPT_MAX: Final = 5
OPEN_S_MAX: Final = 15.0
_REJECTED: Final = ("invalid credentials", "The credential has expired")


class _Token(NamedTuple):
    id: str
    hmac: bytes


class _Moment(NamedTuple):
    """When something began on a node."""

    at: float
    wall_ms: int
    starts: int
    skew_ms: int


class _Frames:
    """The session of a login: remembers whether anything was received."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.received = asyncio.Event()
        self.is_lost = False

    def frame(self, frame: memoryview) -> None:
        self.received.set()

    def lost(self, error: Exception | None) -> None:
        self.is_lost = True


class TokenUser(Client):
    def __init__(self, shared: Shared, name: str, timeline: Timeline) -> None:
        super().__init__(shared, name)
        self._timeline = timeline
        self._tokens: list[_Token] = []

    def _dialer(self) -> Dialer:
        return secured.dialer(self, user=secured.OTHER_USER)

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(0.1 + self.random.random() * 0.5)
            try:
                await self._act()
            except (Lost, Unavailable):
                continue

    async def _act(self) -> None:
        chance = self.random.random()
        if not self._tokens or chance < 0.25:
            await self._create()
            return
        token = self._tokens[-1] if self.random.random() < 0.5 else self.random.choice(self._tokens)
        if chance < 0.4:
            await self._use_after_removal(token)
        elif chance < 0.45:
            address = self.random.choice(self.shared.bootstrap)
            period = seconds(self.random.choice((1, 3, 10)))
            await self.ask(address, ApiKey.RENEW_DELEGATION_TOKEN, 2, hmac=token.hmac, renew_period=period)
        elif chance < 0.55:
            await self._expire(token, self.random.choice((-1, -1, 1)))
        else:
            await self._log_in(token, self._any_host())

    async def _use_after_removal(self, token: _Token) -> None:
        """Log in on a node, remove the token, and log in on the same node again."""
        host = self._any_host()
        await self._log_in(token, host)
        await self._expire(token, -1)
        await self.sleep(self.random.random())
        await self._log_in(token, host)

    def _any_host(self) -> Host:
        return self._timeline.host(self.random.choice(list(self._timeline.hosts)))

    async def _expire(self, token: _Token, period_s: int) -> None:
        """Let a token expire after a period; -1 removes it."""
        address = self.random.choice(self.shared.bootstrap)
        period = seconds(period_s)
        await self.ask(address, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, hmac=token.hmac, expiry_time_period=period)

    async def _create(self) -> None:
        lifetime = seconds(self.random.choice((1, 2, 4, 15)))
        address = self.random.choice(self.shared.bootstrap)
        reply = await self.ask(address, ApiKey.CREATE_DELEGATION_TOKEN, 3, renewers=[], max_lifetime=lifetime)
        if not int(reply.error_code):
            self._tokens = [*self._tokens, _Token(reply.token_id, reply.hmac)][-KEPT_MAX:]

    async def _log_in(self, token: _Token, host: Host) -> None:
        began = _now(self, host)
        # A node of a cluster accepts logins before it is up, with images that the timeline does not have.
        if began is None or host.state != "up":
            return
        outcome = await self._open(host, token)
        ended = _now(self, host)
        if ended is None or (ended.starts, ended.skew_ms) != (began.starts, began.skew_ms):
            _close(outcome)
            return
        images = self._timeline.between(host.name, began.at, ended.at)
        expiries = [None if token.id not in each.tokens else each.tokens[token.id].expires_at_ms for each in images]
        if isinstance(outcome, _Frames):
            self._check_accepted(host, expiries, began)
            await self._outlive(host, outcome, expiries, ended)
        elif isinstance(outcome, LoginFailed) and any(text in str(outcome) for text in _REJECTED):
            self._check_rejected(host, expiries, ended)
            # Most are used only until they are rejected: a node delays its answers if many logins fail.
            if self.random.random() < 0.7:
                self._tokens = [each for each in self._tokens if each != token]

    def _check_accepted(self, host: Host, expiries: list[int | None], began: _Moment) -> None:
        if not any(each is not None and each > began.wall_ms for each in expiries):
            self.complain(f"inv_55: {host.name} accepted a token that was expired or did not exist")

    def _check_rejected(self, host: Host, expiries: list[int | None], ended: _Moment) -> None:
        if expiries and all(each is not None and each > ended.wall_ms for each in expiries):
            self.complain(f"inv_55: {host.name} rejected a valid token")

    async def _outlive(self, host: Host, frames: _Frames, expiries: list[int | None], ended: _Moment) -> None:
        """Use a session after its token has expired."""
        last = max((each for each in expiries if each is not None), default=0)
        # Sessions are measured by the monotonic clock, whose rate may differ from the simulation's.
        wait_s = (last - ended.wall_ms) / 1000 * 1.2 + 0.5
        if 0 < wait_s < 5 and self.random.random() < 0.5:
            await self.sleep(wait_s)
            if not frames.is_lost and await self._is_answered(frames):
                self.complain(f"inv_55: {host.name} answered a request after its token had expired")
        _close(frames)

    async def _is_answered(self, frames: _Frames) -> bool:
        assert frames.connection is not None
        request = requests.entity(ApiKey.API_VERSIONS, 0)
        frames.connection.send((requests.frame(ApiKey.API_VERSIONS, 0, 1, self.name, request),))
        waiting = asyncio.ensure_future(frames.received.wait())
        await asyncio.wait((waiting,), timeout=secured.ANSWER_S_MAX)
        waiting.cancel()
        return frames.received.is_set()

    async def _open(self, host: Host, token: _Token) -> _Frames | OSError | None:
        """Log in; return the session, or why there is none."""
        frames = _Frames()
        opened: asyncio.Future[_Frames | OSError] = self.loop.create_future()

        def on_open(outcome: Connection | OSError) -> _Frames | None:
            if isinstance(outcome, OSError):
                if not opened.done():
                    opened.set_result(outcome)
                return None
            frames.connection = outcome
            if not opened.done():
                opened.set_result(frames)
            return frames

        self._token_dialer(token).connect(*host.address, on_open)
        await asyncio.wait((opened,), timeout=OPEN_S_MAX)
        return opened.result() if opened.done() else None

    def _token_dialer(self, token: _Token) -> SecuredDialer:
        password = base64.b64encode(token.hmac).decode()
        nonce = self.random.randbytes(12).hex()
        return SecuredDialer(
            NetworkPort(self.shared.hub, self.owner, self.name),
            SimClock(self.loop, self.owner),
            client_id=self.name,
            tls=None,
            mechanism=secured.MECHANISM,
            start_login=lambda: ScramClient(secured.MECHANISM, token.id, password, nonce=nonce, is_token=True),
        )


def _now(client: Client, host: Host) -> _Moment | None:
    clock: Any = host.clock
    return None if clock is None else _Moment(client.now, clock.wall_ms(), host.starts, host.skew_ms)


def _close(outcome: _Frames | OSError | None) -> None:
    if isinstance(outcome, _Frames) and outcome.connection is not None and not outcome.is_lost:
        outcome.connection.close()
