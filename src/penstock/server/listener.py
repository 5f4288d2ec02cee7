"""Who may connect: so many in all, so many per address, so many a second per address.

Makes a session for each connection it admits. One that is over a limit is closed at once,
which costs next to nothing; the log says so at most once a minute per address.
"""

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial

from penstock.config.settings import BrokerSettings, Source
from penstock.ports.clock import Clock
from penstock.ports.network import Connection, Listener, Network
from penstock.server.dispatch import Dispatcher
from penstock.server.session import ClientSession

log = logging.getLogger(__name__)

SAID_AGAIN_AFTER_S = 60.0
LOOPBACK = ("127.", "::1", "::ffff:127.")
TOTAL = "max.connections"
PER_ADDRESS = "max.connections.per.ip"
PER_ADDRESS_OVERRIDES = "max.connections.per.ip.overrides"
RATE = "max.connection.creation.rate"
RATE_PER_ADDRESS = "max.connection.creation.rate.per.ip"


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
        problem = self._problem(host, self._current_settings())
        if problem is None:
            self._open[host] += 1
            self._total += 1
            return True
        now = self._clock.monotonic()
        if now - self._said.get(host, -SAID_AGAIN_AFTER_S) >= SAID_AGAIN_AFTER_S:
            self._said[host] = now
            log.warning("refusing connections from %s: %s is reached", host, problem)
        return False

    def _problem(self, host: str, settings: BrokerSettings) -> str | None:
        """The name of the limit that one more connection would break."""
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
    """Clients on this machine are held to limits that somebody set, not to the default ones."""
    return host.startswith(LOOPBACK) and settings.source(option) is Source.DEFAULT


class Server:
    """The listeners of a node. Bound first, served once the node is ready to answer."""

    def __init__(self, network: Network, admission: Admission) -> None:
        self._network = network
        self._admission = admission
        self._listeners: list[tuple[str, Listener]] = []
        self._dispatcher: Dispatcher | None = None

    def bind(self, name: str, host: str, port: int) -> int:
        """Take an address for the listener of that name; returns the port, which matters when 0 was asked for."""
        listener = self._network.listen(host, port)
        self._listeners.append((name, listener))
        return listener.port

    def serve(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        for name, listener in self._listeners:
            listener.serve(partial(self._accept, name))

    def _accept(self, name: str, connection: Connection) -> ClientSession | None:
        host = connection.peer_host
        assert self._dispatcher is not None, "connections come only once the listeners are served"
        if not self._admission.admit(host):
            return None
        return ClientSession(connection, name, self._dispatcher, lambda: self._admission.leave(host))

    def stop(self) -> None:
        for _, listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._dispatcher is not None:
            self._dispatcher.stop()
