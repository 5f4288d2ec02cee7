"""What a node measures itself with, beside the ports that it works with. All of it may be missing.

A simulator gives none: then times are those of the clock port, and there is no endpoint to ask. Nothing that is
measured here decides anything.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.ports.network import Session


class Stopwatch(Protocol):
    @property
    def turn_began(self) -> int:
        """When the frames that are handed over now were at hand, by `now_ns`."""
        ...

    def now_ns(self) -> int: ...


class Watchdog(Protocol):
    def request_held(self, session: Session, frame: memoryview, held_ns: int) -> None:
        """Handling a frame took this long without a break."""
        ...

    def turn_held(self, held_ns: int) -> None:
        """A turn of the event loop took this long, with all that it handled."""
        ...


class NetworkUsage(NamedTuple):
    """What connections use: bytes of requests that have not arrived, their bound, bytes of replies not taken yet."""

    buffered: int
    budget: int
    unsent: int
    closed: Mapping[str, int]
    """How many connections this node has closed, by reason."""


class HttpAnswer(NamedTuple):
    status: int
    content_type: str
    body: AsyncIterator[bytes]
    """Sent as it comes."""


Answerer = Callable[[str], HttpAnswer]
"""Answers a GET of a path."""


class HttpListener(Protocol):
    port: int

    async def close(self) -> None: ...


class Http(Protocol):
    async def listen(self, host: str, port: int, answer: Answerer) -> HttpListener:
        """Answer on a port (0: a free one). Raises OSError, EADDRINUSE above all."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    stopwatch: Stopwatch | None = None
    http: Http | None = None
    network_usage: Callable[[], NetworkUsage] | None = None
    process_usage: Callable[[], Mapping[str, float]] | None = None
    """By the names of the metrics that it is shown as."""
    watch: Callable[["Watchdog"], None] | None = None
    """Given a watchdog, tells it what keeps the event loop for long."""
    time_syncs: Callable[[Callable[[int], None]], None] | None = None
    """Given a function, calls it with the nanoseconds that each sync of a file takes."""
