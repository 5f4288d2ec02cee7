"""One client connection: requests in, responses out in the order of their requests.

A produce request that waits for its acknowledgement does not delay the requests behind it, nor does an
offset commit. Any other request that waits does, as Kafka's clients expect, including a produce request
that is not yet appended. The port pauses the peer meanwhile, and while a quota mutes it
(quotas/throttle.py). Calls go to dispatch.py.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.handlers.support.reply import Parked, ParkedWrite, Parts
from penstock.handlers.support.transaction_verification import CloseConnection
from penstock.ports.network import Connection, FileSlice
from penstock.quotas.limits import Client
from penstock.security.principal import ANONYMOUS
from penstock.security.rights import Rights
from penstock.wire.frame import MalformedRequest

if TYPE_CHECKING:
    from penstock.server.dispatch import Dispatcher

log = logging.getLogger(__name__)

# More requests in flight than any client sends; beyond that, the peer is not read.
PIPELINED_MAX = 128
# Metadata of thousands of partitions: responses must not pile up for a client that sends requests but does not read.
LARGE_REPLY = 32 * 1024


class ClientSession:
    __slots__ = (
        "_dispatch",
        "_muted",
        "_on_lost",
        "_paused",
        "_waiting",
        "client",
        "connection",
        "listener",
        "principal",
        "rights",
    )

    def __init__(
        self, connection: Connection, listener: str, dispatcher: "Dispatcher", on_lost: Callable[[], None]
    ) -> None:
        self.connection = connection
        self.listener = listener
        self._dispatch = dispatcher.dispatch
        self._on_lost = on_lost
        self._waiting: deque[Parked] = deque()
        self._paused = self._muted = False
        self.principal = ANONYMOUS
        self.rights: Rights | None = None
        """What the principal may do; None if there is no authorizer."""
        self.client: Client | None = None
        """The limits last found for this connection's client; None while no quota is set."""

    def frame(self, frame: memoryview) -> bool:
        connection = self.connection
        try:
            reply = self._dispatch(frame, self)
        except MalformedRequest as reason:
            log.info("closing the connection from %s:%d: %s", connection.peer_host, connection.peer_port, reason)
            connection.close()
            return False
        except CloseConnection:
            connection.close()
            return False
        if isinstance(reply, Parked):
            if reply.parts is None:
                self._park(reply)
            else:
                is_large = _is_large(reply.parts)
                self._wait_behind(reply, is_large=is_large)
                return is_large
        elif reply:
            if self._waiting:
                self._wait_behind(Parked(reply), is_large=_is_large(reply))
            else:
                connection.send(reply)
        return False

    def _wait_behind(self, reply: Parked, *, is_large: bool) -> None:
        """Send a ready reply after those that are not; without a bound, the ready ones would fill the memory."""
        self._waiting.append(reply)
        self._release(flush=False)
        if self._waiting and (is_large or len(self._waiting) >= PIPELINED_MAX):
            self._paused = True
            self.connection.pause_frames()

    def _park(self, parked: Parked) -> None:
        parked.on_ready = self._release
        self._waiting.append(parked)
        if parked.holds_next or len(self._waiting) >= PIPELINED_MAX:
            self._paused = True
            self.connection.pause_frames()
            if isinstance(parked, ParkedWrite):
                parked.on_applied = self._applied

    def _applied(self) -> None:
        """Resume reading: the produce request that held up the next ones is appended, and waits like any other now."""
        if self._paused and len(self._waiting) < PIPELINED_MAX:
            self._resume()

    def _resume(self) -> None:
        self._paused = False
        if not self._muted:
            self.connection.resume_frames()

    def mute(self) -> None:
        self._muted = True
        self.connection.pause_frames()

    def unmute(self) -> None:
        self._muted = False
        if not self._paused:
            self.connection.resume_frames()

    def _release(self, *, flush: bool = True) -> None:
        """Send every reply whose turn has come; without `flush` more replies follow soon."""
        waiting = self._waiting
        while waiting and (parts := waiting[0].parts) is not None:
            parked = waiting.popleft()
            if parked.failed:
                self.connection.close()
                return
            if not parts:
                continue
            if flush and not waiting:
                self.connection.send_now(parts)
            else:
                self.connection.send(parts)
        if self._paused and not waiting:
            self._resume()

    def lost(self, error: Exception | None) -> None:
        for parked in self._waiting:
            parked.abandon()
        self._waiting.clear()
        on_lost, self._on_lost = self._on_lost, _already_lost
        on_lost()


def _is_large(parts: Parts) -> bool:
    last = parts[-1] if parts else b""
    return not isinstance(last, FileSlice) and len(last) > LARGE_REPLY


def _already_lost() -> None:
    """Replace the callback of a session that has ended: it refers to the session."""
