"""The keys that verify OAUTHBEARER tokens: loaded at startup, then again periodically and for unknown keys.

A document that cannot be loaded at startup stops the node; later the present keys stay in use. Goes to security/jwt.py.
"""

import asyncio
import logging
from typing import Final

from penstock.config.broker_security import OAUTHBEARER
from penstock.config.listeners import ListenerConfig
from penstock.model.errors import StartupError
from penstock.ports.clock import Clock, Timer
from penstock.ports.documents import Documents
from penstock.security.jwt import Claims, Expected, InvalidKeys, Key, key_id, load_keys, verify

log = logging.getLogger(__name__)

RELOAD_S_MIN: Final = 10.0


class TokenKeys:
    def __init__(self, listener: ListenerConfig, documents: Documents, clock: Clock) -> None:
        def option(name: str) -> object:
            return listener.get(name, OAUTHBEARER)

        self._url = str(option("sasl.oauthbearer.jwks.endpoint.url"))
        self._refresh_s = int(str(option("sasl.oauthbearer.jwks.endpoint.refresh.ms"))) / 1000
        issuer, audiences = option("sasl.oauthbearer.expected.issuer"), option("sasl.oauthbearer.expected.audience")
        self._expected = Expected(
            issuer=None if issuer is None else str(issuer),
            audiences=audiences if isinstance(audiences, tuple) else (),
            user_claim=str(option("sasl.oauthbearer.sub.claim.name")),
            skew_s=int(str(option("sasl.oauthbearer.clock.skew.seconds"))),
        )
        self._documents = documents
        self._clock = clock
        self._keys: list[Key] = []
        self._loaded_at = 0.0
        self._loading: asyncio.Task[None] | None = None
        self._timer: Timer | None = None

    async def start(self) -> None:
        try:
            self._keys = load_keys(await self._documents.read(self._url))
        except (OSError, InvalidKeys) as problem:
            raise StartupError(f"Cannot load the keys of sasl.oauthbearer.jwks.endpoint.url: {problem}") from None
        self._loaded_at = self._clock.monotonic()
        self._timer = self._clock.call_later(self._refresh_s, self._reload)

    def verify(self, token: str) -> Claims:
        """Return the claims of a valid token. Raises InvalidToken."""
        kid = key_id(token)
        is_unknown = kid is not None and all(key.kid != kid for key in self._keys)
        if is_unknown and self._clock.monotonic() - self._loaded_at >= RELOAD_S_MIN:
            self._reload()
        return verify(token, self._keys, self._expected, now_ms=self._clock.wall_ms())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._loading is not None:
            self._loading.cancel()

    def _reload(self) -> None:
        self._loaded_at = self._clock.monotonic()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(self._refresh_s, self._reload)
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load())

    async def _load(self) -> None:
        try:
            self._keys = load_keys(await self._documents.read(self._url))
        except (OSError, InvalidKeys) as problem:
            log.error("cannot load the keys for tokens again, the present ones stay in use: %s", problem)
        finally:
            self._loading = None
