"""Replies that are not ready yet.

A hot handler returns the reply's parts at once, `NO_REPLY` for a request that gets none, or
a `Parked` that keeps the reply's place in the connection's order until it is ready. A cold
handler that writes its reply itself returns it as `Encoded`.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from penstock.ports.network import Part

Parts = Sequence[Part]
NO_REPLY: Parts = ()


class Encoded:
    """A cold handler's reply as bytes: the whole frame, where others return an entity."""

    __slots__ = ("parts",)

    def __init__(self, parts: Parts) -> None:
        self.parts = parts


class Parked:
    """A reply to come. The session sets `on_ready`; the handler calls `ready` once."""

    holds_next: ClassVar[bool] = True
    """The session handles no further request of the connection until this one is answered, as clients expect."""

    __slots__ = ("failed", "is_abandoned", "on_answered", "on_ready", "parts")

    def __init__(self, parts: Parts | None = None) -> None:
        self.parts = parts
        self.failed = self.is_abandoned = False
        """There is no shape for what went wrong: the connection is closed when the reply's turn comes."""
        self.on_ready: Callable[[], None] | None = None
        self.on_answered: Callable[[], None] | None = None
        """Set by the dispatcher, which measures how long the answer takes."""

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
        """The connection is gone: nobody waits for this any more."""
        self.on_ready = None
        self.is_abandoned = True


class ParkedWrite(Parked):
    """A produce that is not written yet: the requests behind it wait until it is."""

    __slots__ = ("on_applied",)

    def __init__(self) -> None:
        super().__init__()
        self.on_applied: Callable[[], None] | None = None
        """Set by the session; called when the batches are written, before they are durable."""

    def applied(self, reply: Parts | Parked) -> None:
        """The batches are written; the reply may still wait for them to be durable."""
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
