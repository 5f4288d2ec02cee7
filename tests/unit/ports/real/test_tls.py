"""TLS in the network port: data in both directions, bad peers, key stores, and certificates that change."""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from itertools import count, pairwise
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from penstock.ports.network import Connection, FileSlice, Limits, Session, TlsError, TlsSettings, TlsStore
from penstock.ports.real import tls_connection
from penstock.ports.real.disk import RealDisk
from penstock.ports.real.network import RealNetwork
from penstock.ports.real.stores import load_authorities, load_key
from penstock.ports.real.tls import CHECK_INTERVAL_S, Reloads, ServerTls
from tests.support.eventually import eventually_here
from tests.support.security import Certificates
from tests.unit.ports.real.sockets import count_reads

pytest.importorskip("cryptography")
HOST = "127.0.0.1"
BUFFER_SIZE = 64 * 1024


class Echo:
    """Answers each frame with itself, or with slices of a file if it says so."""

    def __init__(self, connection: Connection, slices: list[FileSlice]) -> None:
        self.connection = connection
        self._slices = slices
        self.ended: list[Exception | None] = []

    def frame(self, frame: memoryview) -> None:
        if bytes(frame[:4]) == b"file":
            size = sum(each.size for each in self._slices)
            self.connection.send((pack(">i", size), *self._slices))
        else:
            self.connection.send((pack(">i", len(frame)), bytes(frame)))

    def lost(self, error: Exception | None) -> None:
        self.ended.append(error)


class Collect:
    """The session of a client: collects frames."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.is_lost = False

    def frame(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))

    def lost(self, error: Exception | None) -> None:
        self.is_lost = True


class Stage:
    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        # Small, so that a few megabytes never fit into the buffers of the operating system.
        self.network = RealNetwork(Limits(send_buffer_size=BUFFER_SIZE))
        self.sessions: list[Echo] = []
        self.slices: list[FileSlice] = []
        trusted = TlsStore(location=str(certificates.authority), kind="PEM")
        self.server_tls = TlsSettings(key_store=pem(certificates.broker), trust_store=trusted)
        self.client_tls = TlsSettings(trust_store=trusted)
        self.listener = self.network.listen(HOST, 0, self.server_tls)
        self.listener.serve(self._accept)

    def _accept(self, connection: Connection) -> Session:
        session = Echo(connection, self.slices)
        self.sessions.append(session)
        return session

    async def connect(self, tls: TlsSettings | None = None) -> tuple[Connection, Collect]:
        outcome: asyncio.Future[Connection | OSError] = asyncio.get_running_loop().create_future()
        session = Collect()

        def opened(result: Connection | OSError) -> Session | None:
            outcome.set_result(result)
            return session

        self.network.connect(HOST, self.listener.port, opened, tls or self.client_tls)
        result = await outcome
        if isinstance(result, OSError):
            raise result
        return result, session

    def stop(self) -> None:
        self.listener.close()
        self.network.stop()


def pem(path: Path) -> TlsStore:
    return TlsStore(location=str(path), kind="PEM")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def stage(certificates: Certificates) -> AsyncIterator[Stage]:
    made = Stage(certificates)
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("sizes", [[1], [100] * 500, [16384, 16385, 100_000, 5], [3_000_000, 1, 2_000_000]])
async def test_frames_arrive_whole_and_in_order(stage: Stage, version: str, sizes: list[int]) -> None:
    tls = TlsSettings(trust_store=stage.client_tls.trust_store, protocols=(version,))
    connection, session = await stage.connect(tls)
    frames = [os.urandom(1) * size for size in sizes]
    for frame in frames:
        connection.send((pack(">i", len(frame)), frame))
    await eventually_here(lambda: len(session.frames) == len(frames))
    assert session.frames == frames


async def test_slices_of_files_are_encrypted(stage: Stage, tmp_path: Path) -> None:
    content = os.urandom(2_000_000)
    path = tmp_path / "file"
    path.write_bytes(content)
    disk = RealDisk()
    file = disk.open(str(path))
    stage.slices += [FileSlice(file, 10, 1_500_000), FileSlice(file, 0, 100), FileSlice(file, 5, 70_000)]
    connection, session = await stage.connect()
    connection.send((pack(">i", 4), b"file"))
    await eventually_here(lambda: bool(session.frames))
    assert session.frames == [content[10:1_500_010] + content[:100] + content[5:70_005]]
    file.close()
    disk.stop()


async def test_many_slices_of_files_are_not_read_for_every_record(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(60_000)
    (tmp_path / "file").write_bytes(content)
    disk = RealDisk()
    file = disk.open(str(tmp_path / "file"))
    stage.slices += [FileSlice(file, 0, 60_000) for _ in range(100)]
    connection, session = await stage.connect()
    read = count_reads(monkeypatch)
    connection.send((pack(">i", 4), b"file"))
    await eventually_here(lambda: bool(session.frames))
    assert session.frames == [content * 100]
    assert sum(read) < 4 * len(session.frames[0])
    file.close()
    disk.stop()


def blocking_client(stage: Stage, *, certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(stage.certificates.authority))
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


async def test_a_peer_that_reads_late_gets_everything(stage: Stage) -> None:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_SIZE)
    sock.connect((HOST, stage.listener.port))
    reader, writer = await asyncio.open_connection(
        sock=sock, ssl=blocking_client(stage), server_hostname=HOST, limit=1000
    )
    frame = os.urandom(4_000_000)
    writer.write(pack(">i", len(frame)) + frame)
    await eventually_here(lambda: any(each.unsent_in_memory() > 0 for each in stage.network.connections))
    assert await reader.readexactly(4 + len(frame)) == pack(">i", len(frame)) + frame
    writer.close()


async def test_the_certificate_of_a_client_is_shown(certificates: Certificates) -> None:
    from penstock.security.names import subject_of

    stage = Stage(certificates)
    stage.listener.close()
    required = TlsSettings(
        key_store=stage.server_tls.key_store, trust_store=stage.server_tls.trust_store, client_auth="required"
    )
    stage.listener = stage.network.listen(HOST, 0, required)
    stage.listener.serve(stage._accept)
    try:
        own = TlsSettings(trust_store=stage.client_tls.trust_store, key_store=pem(certificates.client))
        connection, session = await stage.connect(own)
        connection.send((pack(">i", 1), b"x"))
        await eventually_here(lambda: bool(session.frames))
        certificate = stage.sessions[0].connection.peer_certificate
        assert certificate is not None and subject_of(certificate) == "CN=client"
        assert connection.peer_certificate is not None and subject_of(connection.peer_certificate) == "CN=broker"
        for wrong in (None, pem(certificates.stranger)):
            refused = TlsSettings(trust_store=stage.client_tls.trust_store, key_store=wrong, protocols=("TLSv1.2",))
            with pytest.raises(TlsError):
                await stage.connect(refused)
    finally:
        stage.stop()


async def test_a_client_does_not_connect_to_a_server_that_it_does_not_trust(
    stage: Stage, certificates: Certificates
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    expired = certificates.issue("broker", file="expired.pem", hosts=[HOST], now=now - datetime.timedelta(days=9))
    early = certificates.issue("broker", file="early.pem", hosts=[HOST], now=now + datetime.timedelta(days=9))
    elsewhere = certificates.issue("broker", file="elsewhere.pem", hosts=["example.org"])
    for wrong in (expired, early, elsewhere, certificates.stranger):
        listener = stage.network.listen(HOST, 0, TlsSettings(key_store=pem(wrong)))
        listener.serve(stage._accept)
        stage.listener.close()
        stage.listener = listener
        with pytest.raises(TlsError, match="the certificate is not accepted"):
            await stage.connect()
    unchecked = TlsSettings(trust_store=stage.client_tls.trust_store, checks_host_name=False)
    stage.listener.close()
    stage.listener = stage.network.listen(HOST, 0, TlsSettings(key_store=pem(elsewhere)))
    stage.listener.serve(stage._accept)
    await stage.connect(unchecked)


async def test_plain_text_on_a_tls_port_is_logged_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            reader, writer = await asyncio.open_connection(HOST, stage.listener.port)
            writer.write(b"\0\0\0\x14\0\x12\0\0")
            assert await reader.read() == b""
            writer.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"closing a connection from {HOST}: it sends plain text, but this listener expects TLS"
    ]
    assert stage.network.closed["tls_handshake"] == 3


async def test_tls_on_a_plain_port_is_logged_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    plain = stage.network.listen(HOST, 0)
    plain.serve(stage._accept)
    with caplog.at_level(logging.WARNING), pytest.raises(OSError):
        await asyncio.open_connection(HOST, plain.port, ssl=blocking_client(stage))
    assert [record.getMessage() for record in caplog.records] == [
        f"closing a connection from {HOST}: it uses TLS, but this listener expects plain text"
    ]
    plain.close()


async def test_a_client_that_speaks_tls_to_a_plain_port_fails(stage: Stage) -> None:
    plain = stage.network.listen(HOST, 0)
    plain.serve(stage._accept)
    stage.listener.close()
    stage.listener = plain
    with pytest.raises(OSError):
        await stage.connect()


async def test_a_handshake_that_does_not_end_is_closed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_connection((HOST, stage.listener.port)) as sock:
        sock.sendall(b"\x16\x03\x01")
        await eventually_here(lambda: bool(stage.network.connections))
        [connection] = stage.network.connections
        assert connection.overdue(stage.network.now()) is None
        assert connection.overdue(stage.network.now() + tls_connection.HANDSHAKE_S_MAX + 1) == "tls_timeout"


class InThisThread:
    """An offload port that runs each call before it returns."""

    def run(self, call: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            result = call()
        except OSError as problem:
            done(None, problem)
        else:
            done(result, None)

    def stop(self) -> None:
        pass


RELOADS = Reloads(InThisThread())


async def test_a_certificate_that_changes_is_loaded_again(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "changing.pem"
    path.write_bytes(certificates.broker.read_bytes())
    reloads = Reloads(InThisThread())
    tls = ServerTls(TlsSettings(key_store=pem(path)), reloads)

    seconds = count(1000)

    def used() -> ssl.SSLContext:
        return tls.wrap(next(seconds) * CHECK_INTERVAL_S).ssl.context

    first = used()
    assert used() is first
    path.write_bytes(certificates.issue("broker", file="again.pem", hosts=[HOST, "localhost"]).read_bytes())
    second = used()
    assert second is not first
    assert reloads.failure_count == 0
    with caplog.at_level(logging.ERROR):
        for content in (b"nothing", certificates.client.read_bytes(), b""):
            path.write_bytes(content)
            assert used() is used() is second, "the present one stays in use"
        path.unlink()
        assert used() is second
    assert len(caplog.records) == reloads.failure_count == 4
    assert "not for CN=broker" in caplog.records[1].getMessage()


async def test_another_name_is_accepted_if_allowed(certificates: Certificates, tmp_path: Path) -> None:
    path = tmp_path / "changing.pem"
    path.write_bytes(certificates.broker.read_bytes())
    allowed = TlsSettings(key_store=pem(path), allows_other_name=True, allows_fewer_hosts=True)
    tls = ServerTls(allowed, Reloads(InThisThread()))
    first = tls.wrap(1.0).ssl.context
    path.write_bytes(certificates.client.read_bytes())
    assert tls.wrap(3.0).ssl.context is not first
    fewer = ServerTls(TlsSettings(key_store=pem(certificates.broker), allows_other_name=True), Reloads(InThisThread()))
    problems: list[TlsError | None] = []
    fewer.renew(TlsSettings(key_store=pem(certificates.client), allows_other_name=True), problems.append)
    assert "not for 127.0.0.1, localhost: set ssl.allow.san.changes" in str(problems[0])


async def test_a_large_pkcs12_store_is_loaded_without_blocking_the_loop(
    stage: Stage, certificates: Certificates, tmp_path: Path
) -> None:
    """A thread would not do: `cryptography` keeps the interpreter lock while it derives the key of the store."""
    path = tmp_path / "store.p12"
    content = pkcs12_store(certificates, rounds=1_000_000)
    path.write_bytes(content)
    began = time.monotonic()
    store = TlsStore(location=str(path), password="canary")
    load_key(store)
    load_s = time.monotonic() - began
    turns: list[float] = []
    problems: list[TlsError | None] = []
    stage.listener.renew(TlsSettings(key_store=store, trust_store=stage.server_tls.trust_store), problems.append)
    while not problems:
        turns.append(time.monotonic())
        await asyncio.sleep(0.001)
    assert problems == [None]
    held_s = max(after - before for before, after in pairwise(turns))
    assert held_s < load_s / 2, f"the loop stood still for {held_s:.3f} s, loading takes {load_s:.3f} s"
    connection, session = await stage.connect()
    connection.send((pack(">i", 2), b"ok"))
    await eventually_here(lambda: session.frames == [b"ok"])


def pkcs12_store(certificates: Certificates, *, rounds: int) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    content = certificates.broker.read_bytes()
    key: Any = serialization.load_pem_private_key(content, None)
    encryption = (
        serialization.PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(rounds)
        .hmac_hash(hashes.SHA256())
        .build(b"canary")
    )
    own = x509.load_pem_x509_certificate(content)
    return pkcs12.serialize_key_and_certificates(b"x", key, own, None, encryption)


def test_pkcs12_stores_are_read_whatever_they_are_called(certificates: Certificates, tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    content = certificates.broker.read_bytes()
    key: Any = serialization.load_pem_private_key(content, None)
    own = x509.load_pem_x509_certificate(content)
    authority = x509.load_pem_x509_certificate(certificates.authority.read_bytes())
    encryption = serialization.BestAvailableEncryption(b"canary")
    path = tmp_path / "store.jks"
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"x", key, own, [authority], encryption))
    store = TlsStore(location=str(path), kind="JKS", password="canary")
    pair = load_key(store)
    assert pair.pem.count(b"BEGIN CERTIFICATE") == 2
    assert "canary" not in repr(store) and "PRIVATE" not in repr(pair)
    ServerTls(TlsSettings(key_store=store), RELOADS)
    trust = tmp_path / "trust.p12"
    trust.write_bytes(pkcs12.serialize_key_and_certificates(b"x", None, None, [authority], encryption))
    assert load_authorities(TlsStore(location=str(trust), password="canary")).count("BEGIN CERTIFICATE") == 1
    for password in (None, "wrong"):
        with pytest.raises(TlsError, match="its password is wrong"):
            load_key(TlsStore(location=str(path), password=password))
    with pytest.raises(TlsError, match="no private key"):
        load_key(TlsStore(location=str(trust), password="canary"))


def test_a_jks_file_is_rejected_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(TlsError, match="keytool -importkeystore -srckeystore"):
        load_key(TlsStore(location=str(path)))


@pytest.mark.parametrize("content", [b"", b"hello", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_file_without_a_key_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.pem"
    path.write_bytes(content)
    with pytest.raises(TlsError):
        ServerTls(TlsSettings(key_store=pem(path)), RELOADS)
    with pytest.raises(TlsError, match="Cannot read"):
        ServerTls(TlsSettings(key_store=pem(tmp_path / "missing.pem")), RELOADS)


def test_an_encrypted_key_needs_its_password(certificates: Certificates, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    content = certificates.broker.read_bytes()
    key = serialization.load_pem_private_key(content, None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"canary")
    )
    certificate = content[content.index(b"-----BEGIN CERTIFICATE") :]
    inline = TlsStore(kind="PEM", key=encrypted.decode(), certificates=certificate.decode(), key_password="canary")
    ServerTls(TlsSettings(key_store=inline), RELOADS)
    for password in (None, "wrong"):
        path = tmp_path / "encrypted.pem"
        path.write_bytes(encrypted + certificate)
        with pytest.raises(TlsError, match=r"Check that .* ssl.key.password"):
            ServerTls(TlsSettings(key_store=TlsStore(location=str(path), key_password=password)), RELOADS)
