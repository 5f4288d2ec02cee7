"""Replies that are not ready yet.

A hot handler returns the reply's parts, `NO_REPLY` for a request without a response, or
a `Parked` that holds the reply's place in the connection's order until it is ready. A cold
handler that encodes its reply itself returns it as `Encoded`, or as a `Parked` if it waits for a callback only: a task
that waits would cost more than the rest.
"""

from collections.abc import Callable, Sequence

from penstock.ports.network import Part

Parts = Sequence[Part]
NO_REPLY: Parts = ()


class Encoded:
    """A cold handler's encoded reply: the whole frame, where other handlers return an entity."""

    __slots__ = ("parts",)

    def __init__(self, parts: Parts) -> None:
        self.parts = parts


class Parked:
    """A reply that is not ready. The session sets `on_ready`; the handler calls `ready` once."""

    holds_next: bool = True
    """The session handles no further request of the connection until this one is answered, as clients expect."""

    __slots__ = ("failed", "is_abandoned", "on_answered", "on_ready", "parts")

    def __init__(self, parts: Parts | None = None) -> None:
        self.parts = parts
        self.failed = self.is_abandoned = False
        """No response can express the error: the connection is closed when it is the reply's turn."""
        self.on_ready: Callable[[], None] | None = None
        self.on_answered: Callable[[], None] | None = None
        """Set by the dispatcher, which measures how long the response takes."""

    @property
    def is_over(self) -> bool:
        """Return whether it is answered, or its connection closed."""
        return self.parts is not None or self.is_abandoned

    def ready(self, parts: Parts) -> None:
        self.parts = parts
        if self.on_answered is not None:
            self.on_answered()
        if self.on_ready is not None:
            self.on_ready()

    def fail(self) -> None:
        self.failed = True
        self.ready(NO_REPLY)

    def abandon(self) -> None:
        """Discard the reply: the connection is closed."""
        self.on_ready = None
        self.is_abandoned = True


class ColdReply(Parked):
    """The reply of a cold handler, which may itself return one that is parked."""

    __slots__ = ("_awaited",)

    def __init__(self) -> None:
        super().__init__()
        self._awaited: Parked | None = None

    def follow(self, reply: Parked) -> None:
        """Send a parked reply when it is ready, or discard it if the connection is closed first."""
        if self.is_abandoned:
            reply.abandon()
        elif reply.parts is not None:
            self._pass_on(reply)
        else:
            self._awaited = reply
            reply.on_ready = lambda: self._pass_on(reply)

    def _pass_on(self, reply: Parked) -> None:
        # The replies refer to each other: without this, both would wait for a garbage collection.
        self._awaited = reply.on_ready = None
        self.failed = reply.failed
        self.ready(reply.parts or ())

    def abandon(self) -> None:
        super().abandon()
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            awaited.abandon()


class ParkedWrite(Parked):
    """A produce request that is not appended yet: the requests behind it wait until it is."""

    __slots__ = ("on_applied",)

    def __init__(self) -> None:
        super().__init__()
        self.on_applied: Callable[[], None] | None = None
        """Set by the session; called when the batches are appended, before they are durable."""

    def applied(self, reply: Parts | Parked) -> None:
        """Resume the connection: the batches are appended; the reply may still wait for them to be durable."""
        if isinstance(reply, ParkedWrite) and reply.parts is None:
            reply.on_applied = self.on_applied
        elif self.on_applied is not None:
            self.on_applied()
        if not isinstance(reply, Parked):
            self.ready(reply)
        elif reply.parts is not None:
            self.ready(reply.parts)
        else:
            reply.on_ready = lambda: self._pass_on(reply)

    def _pass_on(self, reply: Parked) -> None:
        self.failed = reply.failed
        self.ready(reply.parts or ())
