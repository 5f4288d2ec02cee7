"""The network port on raw sockets, `add_reader` and sendfile.

Owns what the connections of one event loop share: the receive buffer, the memory for requests and replies, the timers
that close connections without progress. Goes to connection.py, listener.py and dialing.py; frame_memory.py and
unsent.py decide which connections are closed when memory is short.
"""

import asyncio
import logging
import socket
import time
from collections import Counter
from typing import Final

from penstock.ports.instruments import NetworkUsage, Watchdog
from penstock.ports.network import Accept, Limits, Opened, Session, TlsSettings
from penstock.ports.real.close_reasons import REASONS
from penstock.ports.real.connection import SocketConnection
from penstock.ports.real.dialing import dial
from penstock.ports.real.frame_memory import PATIENCE_S, FrameBuffer, FrameMemory
from penstock.ports.real.listener import ServerSocket, bound_sockets
from penstock.ports.real.loop import NodeLoop
from penstock.ports.real.offload import ThreadOffload
from penstock.ports.real.page_cache import PageCache
from penstock.ports.real.sending import ReplySender
from penstock.ports.real.stores import first_certificate, load_key
from penstock.ports.real.thread_time import ThreadTime
from penstock.ports.real.tls import ClientTls, Reloads, ServerTls, TlsState
from penstock.ports.real.tls_connection import TlsConnection
from penstock.ports.real.tls_records import HANDSHAKE
from penstock.ports.real.unsent import UnsentBudget

log = logging.getLogger(__name__)

READ_SIZE: Final = 256 * 1024
SWEEP_INTERVAL_S: Final = 5.0
# Many frames may wait for memory: they are sorted once for all memory that is released meanwhile.
FEED_INTERVAL_S: Final = 0.002


class RealNetwork:
    """Every socket of one event loop."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits or Limits()
        self.received = bytearray(READ_SIZE)
        self.received_view = memoryview(self.received)
        self.memory = FrameMemory(self.limits.memory_budget, self.limits.frame_s_max)
        self.unsent: UnsentBudget[ReplySender] = UnsentBudget(self.limits.memory_budget)
        self.connections: set[SocketConnection] = set()
        self.closed: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        """How many connections this node has closed, by reason."""
        self.page_cache = PageCache()
        self.unflushed: list[ReplySender] = []
        self.is_reading = False
        self.thread_time = self.loop.thread_time if isinstance(self.loop, NodeLoop) else ThreadTime()
        self._watchdog: Watchdog | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._feed_timer: asyncio.TimerHandle | None = None
        self._eviction_timer: asyncio.TimerHandle | None = None
        self._dialing: set[asyncio.Task[None]] = set()
        self._logged_hosts: dict[str, float] = {}
        self._offload = ThreadOffload()
        self._reloads = Reloads(self._offload)
        self._client_contexts: dict[TlsSettings, ClientTls] = {}
        self.turn_began = 0
        """When the frames of the present turn became available, by `now_ns`."""

    def limit(self, limits: Limits) -> None:
        self.limits = limits
        self.memory.limit(limits.memory_budget, limits.frame_s_max)
        self.unsent.budget = limits.memory_budget

    def watch(self, watchdog: Watchdog) -> None:
        """Report what blocks the loop for long to a watchdog."""
        self._watchdog = watchdog
        if isinstance(self.loop, NodeLoop):
            self.loop.watch_turns(watchdog.turn_held)

    def held(self, session: Session, frame: memoryview, held_ns: int) -> None:
        if self._watchdog is not None:
            self._watchdog.request_held(session, frame, held_ns)

    now = staticmethod(time.monotonic)
    now_ns = staticmethod(time.monotonic_ns)

    def mark_cpu(self, now_ns: int) -> None:
        self.thread_time.mark(now_ns)

    def cpu_ns(self, held_ns: int) -> int:
        return self.thread_time.used(held_ns)

    def usage(self) -> NetworkUsage:
        return NetworkUsage(
            buffered=self.memory.held,
            budget=self.limits.memory_budget,
            unsent=sum(connection.unsent_in_memory() for connection in self.connections),
            closed=self.closed,
            failed_certificate_loads=self._reloads.failure_count,
            disk_waits=self.page_cache.load_count,
        )

    def listen(self, host: str, port: int, tls: TlsSettings | None = None) -> ServerSocket:
        self._watch_time()
        server_tls = None if tls is None else ServerTls(tls, self._reloads)
        return ServerSocket(self, bound_sockets(host, port, self.limits), server_tls)

    def own_certificate(self, tls: TlsSettings) -> bytes | None:
        return None if tls.key_store is None else first_certificate(load_key(tls.key_store))

    def connect(self, host: str, port: int, opened: Opened, tls: TlsSettings | None = None) -> None:
        task = self.loop.create_task(self._connect(host, port, opened, tls))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    async def _connect(self, host: str, port: int, opened: Opened, tls: TlsSettings | None) -> None:
        try:
            socket_tls = None if tls is None else await self._client_tls(tls).wrap(host)
            sock = await dial(host, port)
        except OSError as error:
            opened(error)
            return
        self._watch_time()
        if socket_tls is not None:
            TlsConnection(self, sock, (host, port), socket_tls, is_dialed=True).dialed(opened)
        else:
            reset = self.welcome(sock, (host, port), opened, is_dialed=True)
            if reset is not None:
                opened(reset)

    def welcome(
        self,
        sock: socket.socket,
        address: tuple[str, int],
        accept: Accept | Opened,
        *,
        is_dialed: bool = False,
        tls: TlsState | None = None,
    ) -> OSError | None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = (
                SocketConnection(self, sock, address[:2], is_dialed=is_dialed)
                if tls is None
                else TlsConnection(self, sock, address[:2], tls, is_dialed=is_dialed)
            )
        except OSError as error:  # reset before it was accepted
            sock.close()
            return error
        session = accept(connection)
        if session is None:
            sock.close()
            return None
        self.connections.add(connection)
        connection.start(session)
        return None

    def _client_tls(self, tls: TlsSettings) -> ClientTls:
        """Return the context for connections with these settings; they are shared by many connections."""
        known = self._client_contexts.get(tls)
        if known is None:
            known = self._client_contexts[tls] = ClientTls(tls, self._reloads)
        return known

    def schedule_flush(self, connection: ReplySender) -> None:
        """Send at the end of the present read, or in the loop's next turn: sending separately costs a system call."""
        if not self.unflushed and not self.is_reading:
            self.loop.call_soon(self.flush)
        self.unflushed.append(connection)

    def flush(self) -> None:
        while self.unflushed:
            waiting, self.unflushed = self.unflushed, []
            for connection in waiting:
                connection.flush()

    # -- memory ----------------------------------------------------------------------------

    def give_back(self, buffer: FrameBuffer, *, is_reusable: bool = True) -> None:
        """Take back the memory of a frame; it is reused unless a view of it may still exist."""
        self.memory.give_back(buffer, is_reusable=is_reusable)
        if self.memory.waiting and self._feed_timer is None:
            self._feed_timer = self.loop.call_later(FEED_INTERVAL_S, self._feed)

    def starve(self, buffer: FrameBuffer) -> None:
        """Wait for memory; connections that hold it without using it lose it."""
        self.memory.wait(buffer, self.now())
        if self._eviction_timer is None:
            self._eviction_timer = self.loop.call_later(PATIENCE_S, self._evict)

    def _feed(self) -> None:
        self._feed_timer = None
        for buffer in self.memory.feed():
            _connection_of(buffer).feed_again()

    def _evict(self) -> None:
        self._eviction_timer = None
        for buffer in self.memory.evicted(self.now()):
            _connection_of(buffer).evict("request_memory", buffer.claim)
        if self.memory.waiting:
            self._eviction_timer = self.loop.call_later(PATIENCE_S, self._evict)

    def hold_unsent(self, connection: ReplySender) -> None:
        for victim in self.unsent.hold(connection, self.now()):
            victim.evict("reply_memory", victim.unsent_in_memory())

    # -- time ------------------------------------------------------------------------------

    def log_once(self, host: str, size: int) -> None:
        """Log a peer that does not use Kafka's protocol (HTTP, TLS, noise)."""
        if size >> 24 == HANDSHAKE:
            self.log_peer(host, "it uses TLS, but this listener expects plain text")
        else:
            self.log_peer(host, f"a frame cannot have {size} bytes")

    def log_peer(self, host: str, problem: str) -> None:
        """Log why a connection is closed, once a minute per address."""
        now = self.now()
        if now - self._logged_hosts.get(host, -60.0) >= 60.0:
            if len(self._logged_hosts) > 1000:
                self._logged_hosts.clear()
            self._logged_hosts[host] = now
            log.warning("closing a connection from %s: %s", host, problem)

    def _watch_time(self) -> None:
        if self._sweep_timer is None:
            self._sweep_timer = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def _sweep(self) -> None:
        now = self.now()
        for connection in list(self.connections):
            reason = connection.overdue(now)
            if reason is not None:
                self.closed[reason] += 1
                log.info(
                    "closing the connection from %s:%d: %s", connection.peer_host, connection.peer_port, REASONS[reason]
                )
                connection.close()
        self._sweep_timer = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def stop(self) -> None:
        """Close every connection."""
        self._offload.stop()
        for task in self._dialing:
            task.cancel()
        self.flush()
        for connection in list(self.connections):
            connection.close()
        self.page_cache.stop()
        for timer in (self._sweep_timer, self._feed_timer, self._eviction_timer):
            if timer is not None:
                timer.cancel()
        self._sweep_timer = self._feed_timer = self._eviction_timer = None


def _connection_of(buffer: FrameBuffer) -> SocketConnection:
    assert isinstance(buffer.owner, SocketConnection)
    return buffer.owner
