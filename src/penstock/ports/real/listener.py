"""The listening sockets of the network port: bound to every address of a host, accepting a few connections at a time.

An accepted socket goes to `RealNetwork.welcome`. Without free descriptors, it tries again a little later.
"""

import logging
import socket
from typing import TYPE_CHECKING

from penstock.ports.network import Accept, Limits, Renewed, TlsSettings

if TYPE_CHECKING:
    from penstock.ports.real.network import RealNetwork
    from penstock.ports.real.tls import ServerTls

log = logging.getLogger(__name__)

ACCEPTS_PER_TURN_MAX = 64
ACCEPT_RETRY_S = 0.2


class ServerSocket:
    """The sockets of one listener: one per address family of its host."""

    def __init__(self, network: "RealNetwork", sockets: list[socket.socket], tls: "ServerTls | None" = None) -> None:
        self._network = network
        self._sockets = sockets
        self._tls = tls
        self.port: int = sockets[0].getsockname()[1]

    def renew(self, tls: TlsSettings, done: Renewed) -> None:
        assert self._tls is not None, "the listener does not use TLS"
        self._tls.renew(tls, done)

    def serve(self, accept: Accept) -> None:
        for sock in self._sockets:
            self._network.loop.add_reader(sock.fileno(), self._acceptable, sock, accept)

    def _acceptable(self, sock: socket.socket, accept: Accept) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            try:
                peer, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors: the connection stays in the queue, so try again later.
                log.warning("cannot accept a connection: %s", error)
                self._network.loop.remove_reader(sock.fileno())
                self._network.loop.call_later(ACCEPT_RETRY_S, self._resume_accepting, sock, accept)
                return
            tls = None if self._tls is None else self._tls.wrap(self._network.now())
            self._network.welcome(peer, address, accept, tls=tls)

    def _resume_accepting(self, sock: socket.socket, accept: Accept) -> None:
        if sock.fileno() >= 0:
            self._network.loop.add_reader(sock.fileno(), self._acceptable, sock, accept)

    def close(self) -> None:
        for sock in self._sockets:
            if sock.fileno() >= 0:
                self._network.loop.remove_reader(sock.fileno())
                sock.close()


def bound_sockets(host: str, port: int, limits: Limits) -> list[socket.socket]:
    """Return one socket for each address family of the host, all on one port. Raises OSError if there is none."""
    sockets: list[socket.socket] = []
    addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # IPv4 first: with port 0 the other family uses the port that IPv4 was given.
    for family, _, _, _, address in sorted(set(addresses), key=lambda found: found[0]):
        wanted = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_bound(family, str(address[0]), wanted, limits))
        except OSError:
            if not sockets:
                raise
    return sockets


def _bound(family: socket.AddressFamily, host: str, port: int, limits: Limits) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Accepted sockets inherit the sizes; set later, they would not affect the window that is announced.
        if limits.receive_buffer_size > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_size)
        if limits.send_buffer_size > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_size)
        sock.bind((host, port))
        sock.listen(limits.backlog)
    except OSError:
        sock.close()
        raise
    return sock
