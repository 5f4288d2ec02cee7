"""Logins: users of clusters that require one. Passwords are kept in memory only, as part of a connection."""

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.actions.connection import Connection, check_reachable
from penstock.actions.errors import CONNECTION_REFUSED, TRANSPORT, UNKNOWN_HOST, ActionError
from penstock_console.clusters import ClusterAccess
from penstock_console.errors import ApiError
from penstock_console.settings import ClusterSettings

COOKIE: Final = "penstock_session"
IDLE_S: Final = 15 * 60.0
SESSIONS_MAX: Final = 50
_UNREACHABLE: Final = frozenset({CONNECTION_REFUSED, UNKNOWN_HOST, TRANSPORT})


@dataclass(slots=True)
class Session:
    """A browser that has logged in to at least one cluster."""

    key: str
    token: str
    used_at: float
    access: dict[str, ClusterAccess] = field(default_factory=dict)


class Sessions:
    """All sessions. The token of browsers without a session is the same for all of them."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._by_key: dict[str, Session] = {}
        self._anonymous_token = secrets.token_urlsafe(24)

    def find(self, key: str | None) -> Session | None:
        """Return a session that has not expired, and extend it."""
        self._expire()
        session = self._by_key.get(key) if key else None
        if session is not None:
            session.used_at = self._now()
        return session

    def token(self, session: Session | None) -> str:
        return self._anonymous_token if session is None else session.token

    def is_token(self, session: Session | None, given: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), given.encode("utf-8", "replace"))

    def add(self, session: Session | None, access: ClusterAccess) -> Session:
        """Store a login in a new session, together with the other logins of the browser.

        The key changes with each login: a key that someone planted before the login is worth nothing.
        """
        self._expire()
        if session is None and len(self._by_key) >= SESSIONS_MAX:
            raise ApiError(429, "TOO_MANY_LOGINS", f"{SESSIONS_MAX} users are logged in.", "Try again in some minutes.")
        kept = dict(session.access) if session is not None else {}
        if session is not None:
            del self._by_key[session.key]
        replaced = kept.pop(access.name, None)
        if replaced is not None:
            replaced.close()
        made = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(24), self._now(), {**kept, access.name: access})
        self._by_key[made.key] = made
        return made

    def remove(self, session: Session) -> None:
        self._by_key.pop(session.key, None)
        for access in session.access.values():
            access.close()

    def close(self) -> None:
        for session in list(self._by_key.values()):
            self.remove(session)

    def _expire(self) -> None:
        limit = self._now() - IDLE_S
        for session in [each for each in self._by_key.values() if each.used_at < limit]:
            self.remove(session)


def login_connection(cluster: ClusterSettings, user: str, password: str) -> Connection:
    """Return a connection with the credentials; raise ApiError if the cluster rejects them."""
    properties = {**cluster.connection.properties, "sasl.username": user, "sasl.password": password}
    connection = Connection(cluster.connection.bootstrap, properties)
    try:
        check_reachable(connection)
    except ActionError as error:
        if error.code in _UNREACHABLE:
            raise
        raise ApiError(401, "LOGIN_FAILED", "The cluster rejected the user or the password.", "Try again.") from None
    return connection
