"""Connection limits: in total, per address, and connections per second per address.

Creates a session for each connection that it admits. A connection over a limit is closed immediately,
which costs next to nothing; this is logged at most once a minute per address. A connection over
the quota of its address is held without being read, then closed, as in Kafka: a client that is
disconnected immediately would reconnect immediately.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from penstock.config.settings import BrokerSettings, Source
from penstock.metrics.metrics import Metrics
from penstock.ports.clock import Clock
from penstock.ports.network import Connection, Listener, Network, Renewed, Session, TlsSettings
from penstock.quotas.throttle import Throttle
from penstock.server.authentication import ListenerSecurity
from penstock.server.dispatch import Dispatcher
from penstock.server.session import ClientSession

log = logging.getLogger(__name__)

LOG_AGAIN_AFTER_S = 60.0
LOGGED_HOSTS_MAX = 1000
HELD_S_MAX = 1.0
LOOPBACK = ("127.", "::1", "::ffff:127.")
TOTAL = "max.connections"
PER_ADDRESS = "max.connections.per.ip"
PER_ADDRESS_OVERRIDES = "max.connections.per.ip.overrides"
RATE = "max.connection.creation.rate"
RATE_PER_ADDRESS = "max.connection.creation.rate.per.ip"


class Admission:
    """The limits on connections, and the counts that they apply to."""

    def __init__(self, clock: Clock, current_settings: Callable[[], BrokerSettings], metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._current_settings = current_settings
        self._open: Counter[str] = Counter()
        self._total = 0
        self._second = 0
        self._this_second: Counter[str] = Counter()
        self._logged_at: dict[str, float] = {}

    @property
    def open_count(self) -> int:
        return self._total

    def admit(self, host: str) -> bool:
        problem = self._problem(host, self._current_settings())
        if problem is None:
            self._open[host] += 1
            self._total += 1
            self._metrics.connections_created.add()
            return True
        self._metrics.connections_refused.add()
        now = self._clock.monotonic()
        if now - self._logged_at.get(host, -LOG_AGAIN_AFTER_S) >= LOG_AGAIN_AFTER_S:
            if len(self._logged_at) >= LOGGED_HOSTS_MAX:
                # An IPv6 client has more addresses than this node has memory.
                self._logged_at.clear()
            self._logged_at[host] = now
            log.warning("rejecting connections from %s: %s is reached", host, problem)
        return False

    def _problem(self, host: str, settings: BrokerSettings) -> str | None:
        """Return the name of the limit that one more connection would exceed, or None."""
        if self._total >= settings.integer(TOTAL):
            return TOTAL
        if self._open[host] >= self._per_address_max(host, settings):
            return PER_ADDRESS
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._this_second.clear()
        self._this_second[""] += 1
        if self._this_second[""] > settings.integer(RATE):
            return RATE
        self._this_second[host] += 1
        too_fast = self._this_second[host] > settings.integer(RATE_PER_ADDRESS)
        return RATE_PER_ADDRESS if too_fast and not _exempt(host, RATE_PER_ADDRESS, settings) else None

    def _per_address_max(self, host: str, settings: BrokerSettings) -> int:
        for entry in settings.text(PER_ADDRESS_OVERRIDES).split(","):
            name, _, count = entry.strip().rpartition(":")
            if name == host:
                return int(count)
        return settings.integer(TOTAL) if _exempt(host, PER_ADDRESS, settings) else settings.integer(PER_ADDRESS)

    def leave(self, host: str) -> None:
        self._total -= 1
        self._open[host] -= 1
        if self._open[host] <= 0:
            del self._open[host]


def _exempt(host: str, option: str, settings: BrokerSettings) -> bool:
    """Return whether the address is exempt: limits apply to clients on this machine only if they are set explicitly."""
    return host.startswith(LOOPBACK) and settings.source(option) is Source.DEFAULT


class HeldConnection:
    """The session of a connection over its quota: nothing is read, and the connection is closed after a delay."""

    def __init__(self, connection: Connection, clock: Clock, wait_s: float, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._timer = clock.call_later(wait_s, connection.close)
        connection.pause_frames()

    def frame(self, frame: memoryview) -> None:
        """Ignore a frame: held clients get no response."""

    def lost(self, error: Exception | None) -> None:
        self._timer.cancel()
        self._on_lost()


class Server:
    """The listeners of a node. They are bound first, and served when the node can answer."""

    def __init__(self, network: Network, admission: Admission, throttle: Throttle, clock: Clock) -> None:
        self._network = network
        self._throttle = throttle
        self._clock = clock
        self._admission = admission
        self._listeners: list[tuple[str, Listener]] = []
        self.security: Mapping[str, ListenerSecurity] = {}
        """What each listener requires of its clients."""
        self._dispatcher: Dispatcher | None = None

    def bind(self, name: str, host: str, port: int, tls: TlsSettings | None = None) -> int:
        """Bind the address of a listener; return the port, which is a free one if `port` is 0."""
        listener = self._network.listen(host, port) if tls is None else self._network.listen(host, port, tls)
        self._listeners.append((name, listener))
        return listener.port

    def renew(self, name: str, tls: TlsSettings, done: Renewed) -> None:
        """Use other TLS settings for new connections of a listener; `done` gets the error, later."""
        for known, listener in self._listeners:
            if known == name:
                listener.renew(tls, done)

    def serve(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        for name, listener in self._listeners:
            listener.serve(partial(self._accept, name))

    def _accept(self, name: str, connection: Connection) -> Session | None:
        host = connection.peer_host
        dispatcher = self._dispatcher
        assert dispatcher is not None, "connections are accepted only after `serve`"
        if not self._admission.admit(host):
            return None
        bucket = self._throttle.connections(host)
        wait = 0.0 if bucket is None else bucket.debt_s(self._clock.monotonic())
        if wait:
            return HeldConnection(connection, self._clock, min(wait, HELD_S_MAX), partial(self._admission.leave, host))
        if bucket is not None:
            bucket.take(1, self._clock.monotonic())
        session = ClientSession(connection, name, dispatcher, lambda: self._left(connection, session))
        security = self.security.get(name)
        return session if security is None else security.wrap(session)

    def _left(self, connection: Connection, session: ClientSession) -> None:
        self._admission.leave(connection.peer_host)
        self._throttle.forget(session)
        if self._dispatcher is not None:
            self._dispatcher.connection_lost(connection)

    def stop(self) -> None:
        for _, listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._dispatcher is not None:
            self._dispatcher.stop()
