"""Who may connect: so many in all, so many per address, so many a second per address.

Makes a session for each connection it admits. One that is over a limit is closed at once,
which costs next to nothing; the log says so at most once a minute per address.
"""

import logging
from collections import Counter
from collections.abc import Callable

from penstock.config.settings import BrokerSettings
from penstock.ports.clock import Clock
from penstock.ports.network import Connection, Listener, Network
from penstock.server.dispatch import Dispatcher
from penstock.server.session import ClientSession

log = logging.getLogger(__name__)

SAID_AGAIN_AFTER_S = 60.0
LOOPBACK = ("127.", "::1", "::ffff:127.")


class Admission:
    """The limits on connections, and what counts against them."""

    def __init__(self, clock: Clock, current_settings: Callable[[], BrokerSettings]) -> None:
        self._clock = clock
        self._current_settings = current_settings
        self._open: Counter[str] = Counter()
        self._total = 0
        self._second = 0
        self._this_second: Counter[str] = Counter()
        self._said: dict[str, float] = {}

    def admit(self, host: str) -> bool:
        settings = self._current_settings()
        problem = None
        if self._total >= settings.integer("max.connections"):
            problem = "max.connections is reached"
        elif self._open[host] >= settings.integer("max.connections.per.ip"):
            problem = "max.connections.per.ip is reached"
        elif self._too_fast(host, settings.integer("max.connection.creation.rate.per.ip")):
            problem = "max.connection.creation.rate.per.ip is reached"
        if problem is None:
            self._open[host] += 1
            self._total += 1
            return True
        now = self._clock.monotonic()
        if now - self._said.get(host, -SAID_AGAIN_AFTER_S) >= SAID_AGAIN_AFTER_S:
            self._said[host] = now
            log.warning("refusing connections from %s: %s", host, problem)
        return False

    def _too_fast(self, host: str, rate_max: int) -> bool:
        if host.startswith(LOOPBACK):
            return False
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._this_second.clear()
        self._this_second[host] += 1
        return self._this_second[host] > rate_max

    def leave(self, host: str) -> None:
        self._total -= 1
        self._open[host] -= 1
        if self._open[host] <= 0:
            del self._open[host]


class Server:
    """The listeners of a node. Bound first, served once the node is ready to answer."""

    def __init__(self, network: Network, admission: Admission) -> None:
        self._network = network
        self._admission = admission
        self._listeners: list[Listener] = []
        self._dispatcher: Dispatcher | None = None

    def bind(self, host: str, port: int) -> int:
        """Take an address; returns the port, which matters when 0 was asked for."""
        listener = self._network.listen(host, port)
        self._listeners.append(listener)
        return listener.port

    def serve(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        for listener in self._listeners:
            listener.serve(self._accept)

    def _accept(self, connection: Connection) -> ClientSession | None:
        host = connection.peer_host
        assert self._dispatcher is not None, "connections come only once the listeners are served"
        if not self._admission.admit(host):
            return None
        return ClientSession(connection, self._dispatcher, lambda: self._admission.leave(host))

    def stop(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._dispatcher is not None:
            self._dispatcher.stop()
