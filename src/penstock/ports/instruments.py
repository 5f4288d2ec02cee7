"""Instruments that a node measures itself with, in addition to the ports that it works with. All are optional.

A simulator provides none: times then come from the clock port, and there is no HTTP endpoint. No decision
depends on what is measured here.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.ports.network import Session


class Stopwatch(Protocol):
    @property
    def turn_began(self) -> int:
        """Return when the frames of the present turn became available, by `now_ns`."""
        ...

    def now_ns(self) -> int: ...

    def mark_cpu(self, now_ns: int) -> None:
        """Note that work begins whose CPU time may be requested with `cpu_ns`."""
        ...

    def cpu_ns(self, held_ns: int) -> int:
        """Return how much CPU time the event loop's thread spent during work that ends now and took `held_ns`.

        May include a millisecond from before the work, and never leaves any out.
        """
        ...


class Watchdog(Protocol):
    def request_held(self, session: Session, frame: memoryview, held_ns: int) -> None:
        """Record how long handling a frame took without a break."""
        ...

    def turn_held(self, held_ns: int, cpu_ns: int) -> None:
        """Record how long a whole turn of the event loop took, and how much CPU time of its thread."""
        ...


class NetworkUsage(NamedTuple):
    """Memory of connections: bytes of incomplete requests, their limit, bytes of replies that peers have not read."""

    buffered: int
    budget: int
    unsent: int
    closed: Mapping[str, int]
    """How many connections this node has closed, by reason."""
    failed_certificate_loads: int = 0
    """How often changed certificates could not be loaded, so that the present ones stayed in use."""
    disk_waits: int = 0
    """How often a reply waited for bytes that were not in the page cache."""


class HttpAnswer(NamedTuple):
    status: int
    content_type: str
    body: AsyncIterator[bytes]
    """Sent as it is produced."""


Answerer = Callable[[str], HttpAnswer | Awaitable[HttpAnswer]]
"""Answers a GET request for a path."""


class HttpListener(Protocol):
    port: int

    async def close(self) -> None: ...


class Http(Protocol):
    async def listen(self, host: str, port: int, answer: Answerer) -> HttpListener:
        """Serve HTTP on a port (0: a free one), or on a Unix socket if the host is a path.

        Raises OSError, mostly EADDRINUSE.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    stopwatch: Stopwatch | None = None
    http: Http | None = None
    network_usage: Callable[[], NetworkUsage] | None = None
    process_usage: Callable[[], Mapping[str, float]] | None = None
    """By metric name."""
    watch: Callable[["Watchdog"], None] | None = None
    """Sets the watchdog to which long turns and requests of the event loop are reported."""
    time_syncs: Callable[[Callable[[int], None]], None] | None = None
    """Sets the function that is called with the nanoseconds that each sync of a file takes."""
