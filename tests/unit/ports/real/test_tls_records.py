"""TLS records reach OpenSSL one at a time, and a peer that sends thousands of them cannot hold the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import ssl
from collections.abc import Iterator

import pytest

from penstock.ports.network import Connection, Session, TlsError, TlsSettings, TlsStore
from penstock.ports.real.network import RealNetwork
from penstock.ports.real.tls import HANDSHAKE_RECORDS_MAX, RECORDS_PER_READ_MAX, TlsSocket, TlsState
from penstock.ports.real.tls_records import RECORD_SIZE_MAX, TlsRecords
from tests.support.security import Certificates

pytest.importorskip("cryptography")
APPLICATION_DATA, VERSION = 0x17, b"\x03\x03"
HOST = "127.0.0.1"


def record(content: bytes, kind: int = APPLICATION_DATA) -> bytes:
    return bytes([kind]) + VERSION + len(content).to_bytes(2, "big") + content


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a connection; the second does not block."""
    near, far = socket.socketpair()
    with near, far:
        far.setblocking(False)
        yield near, far


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def test_records_arrive_whole_however_they_are_cut(ends: tuple[socket.socket, socket.socket]) -> None:
    sent = [record(b""), record(b"abc"), record(os.urandom(300)), record(b"z")]
    stream = b"".join(sent)
    near, far = ends
    for cut in range(1, len(stream)):
        records = TlsRecords()
        found: list[bytes] = []
        for part in (stream[:cut], stream[cut:]):
            near.send(part)
            assert records.receive(far) == len(part)
            while (arrived := records.next()) is not None:
                found.append(bytes(arrived))
            assert not records.has_next()
            records.keep()
        assert found == sent


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n", bytes([APPLICATION_DATA]) + VERSION + (RECORD_SIZE_MAX + 1).to_bytes(2, "big")]
)
def test_what_is_not_a_record_is_not_waited_for(ends: tuple[socket.socket, socket.socket], garbage: bytes) -> None:
    near, far = ends
    near.send(garbage)
    records = TlsRecords()
    records.receive(far)
    assert bytes(records.next() or b"") == garbage


def test_two_sockets_share_the_buffer(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    first, second = TlsRecords(), TlsRecords()
    whole = record(b"first"), record(b"second")
    for records, each in zip((first, second), whole, strict=True):
        near.send(each)
        records.receive(far)
        records.keep()
    assert [bytes(records.next() or b"") for records in (first, second)] == list(whole)


class Client:
    """A TLS client in memory, whose records the test sends as it likes."""

    def __init__(self, raw: socket.socket, certificates: Certificates, protocols: list[str]) -> None:
        self.raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(certificates.authority))
        context.set_alpn_protocols(protocols)
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def step(self) -> bytes:
        """Return what the handshake sends next."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    def shake_hands_with(self, server: TlsSocket) -> None:
        self.raw.send(self.step())
        assert not server.handshake()
        self._incoming.write(self.raw.recv(64 * 1024))
        self.raw.send(self.step())
        assert server.handshake()

    def encrypt(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._outgoing.read()


def server_on(raw: socket.socket, certificates: Certificates) -> TlsSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker)
    context.num_tickets = 0
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    return TlsSocket(raw, TlsState(incoming, outgoing, context.wrap_bio(incoming, outgoing, server_side=True), True))


def test_many_small_records_are_read_in_turns(
    ends: tuple[socket.socket, socket.socket], certificates: Certificates
) -> None:
    near, far = ends
    client, server = Client(near, certificates, []), server_on(far, certificates)
    client.shake_hands_with(server)
    sent = bytes(each % 251 for each in range(3 * RECORDS_PER_READ_MAX + 1))
    near.send(b"".join(client.encrypt(sent[each : each + 1]) for each in range(len(sent))))
    view = memoryview(bytearray(4096))
    found: list[bytes] = []
    while server.has_pending or not found:
        found.append(bytes(view[: server.recv_into(view)]))
    assert b"".join(found) == sent
    assert max(map(len, found)) == RECORDS_PER_READ_MAX
    with pytest.raises(BlockingIOError):
        server.recv_into(view)


def test_data_that_does_not_fit_is_read_next(
    ends: tuple[socket.socket, socket.socket], certificates: Certificates
) -> None:
    near, far = ends
    client, server = Client(near, certificates, []), server_on(far, certificates)
    client.shake_hands_with(server)
    near.send(client.encrypt(b"0123456789") + client.encrypt(b"abc"))
    view = memoryview(bytearray(6))
    found = [(bytes(view[: server.recv_into(view)]), server.has_pending) for _ in range(3)]
    assert found == [(b"012345", True), (b"6789ab", True), (b"c", False)]


def test_a_handshake_in_very_small_records_is_refused(
    ends: tuple[socket.socket, socket.socket], certificates: Certificates
) -> None:
    near, far = ends
    client, server = Client(near, certificates, ["x" * 250, "y" * 250]), server_on(far, certificates)
    hello = client.step()
    assert len(hello) > HANDSHAKE_RECORDS_MAX
    near.send(b"".join(record(bytes([each]), hello[0]) for each in hello[5:]))
    with pytest.raises(TlsError, match="too many records"):
        server.handshake()


def test_records_that_cannot_be_decrypted_are_an_error(
    ends: tuple[socket.socket, socket.socket], certificates: Certificates
) -> None:
    near, far = ends
    client, server = Client(near, certificates, []), server_on(far, certificates)
    client.shake_hands_with(server)
    near.send(record(os.urandom(100)))
    with pytest.raises(TlsError, match="its TLS records are not accepted: decryption failed"):
        server.recv_into(memoryview(bytearray(100)))


class Silent:
    """A session that answers nothing."""

    def frame(self, frame: memoryview) -> None:
        pass

    def lost(self, error: Exception | None) -> None:
        pass


async def test_a_peer_that_requests_new_keys_again_and_again_is_closed(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command")
    network = RealNetwork()
    store = TlsStore(location=str(certificates.broker), kind="PEM")
    listener = network.listen(HOST, 0, TlsSettings(key_store=store))

    def accept(connection: Connection) -> Session:
        return Silent()

    listener.serve(accept)
    # On a terminal, s_client reads a line at a time; each K is a request for new keys.
    terminal, its_input = os.openpty()
    try:
        os.write(terminal, b"K\n" * 100)
        address = f"{HOST}:{listener.port}"
        client = await asyncio.create_subprocess_exec(
            openssl, "s_client", "-connect", address, "-tls1_3",
            stdin=its_input, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        with caplog.at_level(logging.WARNING):
            await client.wait()
        assert "it sends TLS records without data" in caplog.text
        assert network.closed["tls_records"] == 1
    finally:
        listener.close()
        network.stop()
        os.close(terminal)
        os.close(its_input)
