"""A blocking connection to one broker.

`Connection` also performs TLS and SASL (PLAIN, SCRAM), configured with Kafka's client settings. Requests may be
pipelined: `send` now, `receive` later. A failure raises ConnectionLost and closes the connection.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock_client.errors import BrokerError, PenstockClientError
from penstock_client.protocol import sasl
from penstock_client.protocol.wire import Buffer, Reader, Writer

if TYPE_CHECKING:
    import ssl

CLIENT_ID: Final = "pyspark-penstock"
PAD: Final = 16
"""Padding after each frame, so that records can be read eight bytes at a time from any position in them."""
_FRAME_SIZE_MAX: Final = 1 << 30
_PARTS_PER_CALL: Final = 512  # below the limit of sendmsg
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36


class ConnectionLost(PenstockClientError):
    """The broker closed the connection, or did not respond in time."""


class Connection:
    """A socket with its correlation ids. Responses arrive in the order of the requests."""

    def __init__(self, host: str, port: int, settings: Mapping[str, str], *, timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self._waiting: list[tuple[int, bool]] = []
        self._correlation = 0
        self._reused = bytearray()
        try:
            plain = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise ConnectionLost(f"cannot connect to {self.address}: {error}") from error
        self._socket: socket.socket = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = settings.get("security.protocol", "PLAINTEXT").upper()
            if protocol in ("SSL", "SASL_SSL"):
                self._socket = _tls(plain, host, settings)
            if protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
                self._authenticate(settings)
        except BaseException:
            self.close()
            raise

    @property
    def waiting_count(self) -> int:
        """Return the number of outstanding responses."""
        return len(self._waiting)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def detach(self) -> socket.socket:
        """Hand over the socket, after TLS and SASL, to code that uses it directly."""
        assert not self._waiting, "responses are outstanding"
        return self._socket

    def send(self, api: int, version: int, body: Writer) -> None:
        self._correlation += 1
        client = CLIENT_ID.encode()
        head = struct.pack(">hhih", api, version, self._correlation, len(client)) + client
        if body.compact:
            head += b"\x00"
        parts: list[Buffer] = [b"", head, *body.parts]
        parts[0] = struct.pack(">i", sum(len(part) for part in parts))
        try:
            self._send_parts(parts)
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self.address} closed the connection while a request was sent: {error}") from error
        self._waiting.append((self._correlation, body.compact))

    def receive(self, *, reuse: bool = False) -> Reader:
        """Return the oldest outstanding response, positioned after its header.

        With `reuse`, the next response received this way overwrites its bytes: allocating new memory for each of many
        large responses costs as much as copying them.
        """
        correlation, compact = self._waiting.pop(0)
        try:
            frame = self._frame(reuse=reuse)
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self.address} did not respond: {str(error) or type(error).__name__}") from error
        reader = Reader(frame, compact=compact)
        if reader.int32() != correlation:
            self.close()
            raise ConnectionLost(f"{self.address} sent a response out of order")
        reader.tags()
        return reader

    def call(self, api: int, version: int, body: Writer) -> Reader:
        assert not self._waiting, "a plain call on a connection with outstanding responses"
        self.send(api, version, body)
        return self.receive()

    def _send_parts(self, parts: Sequence[Buffer]) -> None:
        # sendmsg does not work on TLS sockets.
        if type(self._socket) is not socket.socket or sum(map(len, parts)) < 4096:
            self._socket.sendall(b"".join(parts))
            return
        views = [memoryview(part) for part in parts if len(part)]
        while views:
            sent = self._socket.sendmsg(views[:_PARTS_PER_CALL])
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if sent:
                views[0] = views[0][sent:]

    def _frame(self, *, reuse: bool) -> bytearray:
        (size,) = struct.unpack(">i", self._exactly(bytearray(4), 4))
        if not 4 <= size <= _FRAME_SIZE_MAX:
            raise OSError(f"received a frame of {size} bytes, which is not Kafka's protocol; check the port")
        if not reuse:
            return self._exactly(bytearray(size + PAD), size)
        if len(self._reused) < size + PAD:
            self._reused = bytearray(size + PAD)
        return self._exactly(self._reused, size)

    def _exactly(self, data: bytearray, size: int) -> bytearray:
        # Not into the padding: the following bytes belong to the next response.
        view = memoryview(data)[:size]
        got = 0
        while got < size:
            count = self._socket.recv_into(view[got:])
            if count == 0:
                raise OSError("the connection was closed")
            got += count
        return data

    def _authenticate(self, settings: Mapping[str, str]) -> None:
        mechanism = settings.get("sasl.mechanism", "GSSAPI").upper()
        user, password = sasl.credentials(settings)
        reply = self.call(SASL_HANDSHAKE, 1, Writer().string(mechanism))
        code = reply.int16()
        if code:
            offered = ", ".join(reply.array(reply.string))
            raise BrokerError(code, f"SASL mechanism {mechanism}", f"{self.address} offers {offered}")
        exchange = sasl.exchange(mechanism, user, password, token=sasl.is_token(settings))
        message = next(exchange)
        while True:
            reply = self.call(SASL_AUTHENTICATE, 0, Writer().bytes_(message))
            code, detail, answer = reply.int16(), reply.nullable_string(), reply.bytes_()
            if code:
                raise BrokerError(code, f"SASL login of {user!r} at {self.address}", detail)
            try:
                message = exchange.send(answer)
            except StopIteration:
                return


def _tls(plain: socket.socket, host: str, settings: Mapping[str, str]) -> ssl.SSLSocket:
    import ssl  # rarely needed and slow to import

    authorities = settings.get("ssl.ca.location") or settings.get("ssl.truststore.location")
    for name, path in (("ssl.truststore.location", authorities), ("ssl.keystore.location", _keystore(settings))):
        if path and path.lower().endswith((".jks", ".p12", ".pfx")):
            raise PenstockClientError(
                f"{name} {path!r} is a Java keystore, but Python reads only PEM files: convert it with "
                f"'keytool -importkeystore ... -deststoretype pkcs12' and 'openssl pkcs12 -in ... -out ...pem'"
            )
    context = ssl.create_default_context(cafile=authorities)
    # As in Java, an empty value disables hostname verification.
    if settings.get("ssl.endpoint.identification.algorithm", "https") == "":
        context.check_hostname = False
    keystore = _keystore(settings)
    if keystore:
        context.load_cert_chain(keystore, settings.get("ssl.key.location"), settings.get("ssl.key.password"))
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except (ssl.SSLEOFError, ConnectionError, TimeoutError) as error:
        # A broker that restarts does this too.
        raise ConnectionLost(f"{host} ended the TLS handshake: {error}. Does this port use TLS?") from error
    except (ssl.SSLError, OSError) as error:
        raise PenstockClientError(
            f"TLS with {host} failed: {error}. Check kafka.ssl.truststore.location (PEM) and the certificate's name."
        ) from error


def _keystore(settings: Mapping[str, str]) -> str | None:
    return settings.get("ssl.certificate.location") or settings.get("ssl.keystore.location")
