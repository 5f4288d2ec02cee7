"""A connection with TLS: a SocketConnection on a TlsSocket.

It does the handshake before the first frame, reads again what OpenSSL has decrypted but the loop does not see, and
encrypts slices of files instead of sending them with sendfile. Created by network.py.
"""

import socket
from typing import TYPE_CHECKING, Final, cast

from penstock.ports.network import FileSlice, Opened, TlsError
from penstock.ports.real.connection import SocketConnection
from penstock.ports.real.slices import read_slice
from penstock.ports.real.tls import PLAIN_SIZE_MAX, TlsSocket, TlsState

if TYPE_CHECKING:
    from penstock.ports.real.network import RealNetwork

HANDSHAKE_S_MAX: Final = 10.0


class TlsConnection(SocketConnection):
    __slots__ = ("_began", "_opened", "_read_scheduled", "_tls")
    copied_size_max = PLAIN_SIZE_MAX

    def __init__(
        self,
        network: "RealNetwork",
        sock: socket.socket,
        peer: tuple[str, int],
        tls: TlsState,
        *,
        is_dialed: bool,
    ) -> None:
        self._tls = TlsSocket(sock, tls)
        super().__init__(network, cast(socket.socket, self._tls), peer, is_dialed=is_dialed)
        self._began = network.now()
        self._opened: Opened | None = None
        self._read_scheduled = False

    @property
    def peer_certificate(self) -> bytes | None:
        return self._tls.peer_certificate()

    def dialed(self, opened: Opened) -> None:
        """Do the handshake of a connection that this node has opened, then report it as open."""
        self._opened = opened
        self._network.connections.add(self)
        self._watch(True)
        self._readable()

    def _watch(self, wanted: bool) -> None:
        super()._watch(wanted)
        if wanted and self._tls.is_ready and self._tls.has_pending:
            self._read_soon()

    def _readable(self) -> None:
        if self._closed or not (self._tls.is_ready or self._handshake()):
            return
        super()._readable()
        if self._tls.has_pending and self._reading and not self._closed:
            self._read_soon()

    def _read_soon(self) -> None:
        if not self._read_scheduled:
            self._read_scheduled = True
            self._network.loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        self._read_scheduled = False
        if self._reading and not self._closed:
            self._readable()

    def _handshake(self) -> bool:
        """Return whether the connection is ready to be read."""
        try:
            if not self._tls.handshake():
                return False
        except OSError as error:
            if not self.is_dialed and not isinstance(error, ConnectionAbortedError):
                self._network.closed["tls_handshake"] += 1
                self._network.log_peer(self.peer_host, str(error))
            self._drop(error if isinstance(error, TlsError) else TlsError(str(error)))
            return False
        if self._opened is not None:
            opened, self._opened = self._opened, None
            self._session = opened(self)
            if self._session is None:
                self.close()
        return not self._closed

    def _send_file(self, piece: FileSlice) -> None:
        tls = self._tls
        if tls.is_owing:
            sent = tls.send(b"")
        else:
            self._network.page_cache.check(piece)
            part = FileSlice(piece.file, piece.position, min(piece.size, PLAIN_SIZE_MAX), piece.owner)
            sent = tls.send(read_slice(part))
        if self._writing:
            self._progress(sent)
        if sent == piece.size:
            self._out.popleft()
        else:
            rest = self._out[0] = FileSlice(piece.file, piece.position + sent, piece.size - sent, piece.owner)
            rest.is_cached = piece.is_cached

    def unsent_in_memory(self) -> int:
        return super().unsent_in_memory() + self._tls.unsent

    def _drop(self, error: Exception | None) -> None:
        if isinstance(error, TlsError) and self._tls.is_ready and not self._closed:
            self._network.closed["tls_records"] += 1
            self._network.log_peer(self.peer_host, str(error))
        opened, self._opened = self._opened, None
        super()._drop(error)
        if opened is not None:
            opened(error if isinstance(error, OSError) else TlsError("the TLS handshake did not end in time"))

    def overdue(self, now: float) -> str | None:
        if not self._tls.is_ready:
            return "tls_timeout" if now - self._began > HANDSHAKE_S_MAX else None
        return super().overdue(now)
