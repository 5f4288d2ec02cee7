"""Encryption: handshakes, requests for new keys, and very small TLS records, all before a client authenticates."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import ssl
import subprocess
from collections import Counter

from tests.abuse import wire
from tests.abuse.attack import Attack, Counts, Gate, Target
from tests.abuse.parallel import in_threads

FAMILY = "encryption"
CLIENTS = 4
FRAME = wire.request_frame("api_versions", 0, {})
CHUNK = 256 * 1024
LINES = b"K\n" * 1000


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _handshakes(target: Target, gate: Gate) -> Counts:
    context = _context()

    def work(_: int, counts: Counter[str]) -> None:
        while not gate.is_over():
            with contextlib.suppress(OSError), wire.connect(target, port=target.tls_port) as plain:
                context.wrap_socket(plain).close()
                counts["handshakes"] += 1

    return in_threads(CLIENTS, work, gate)


def _small_records(target: Target, gate: Gate) -> Counts:
    """Send a large request with a byte in each record, encrypted before the attack begins."""
    context = _context()
    size = target.of(CHUNK)

    def work(_: int, counts: Counter[str]) -> None:
        while not gate.is_over():
            with contextlib.suppress(OSError), wire.connect(target, port=target.tls_port) as plain:
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = context.wrap_bio(incoming, outgoing)
                while True:
                    try:
                        tls.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        plain.sendall(outgoing.read())
                        incoming.write(plain.recv(CHUNK))
                for each in size.to_bytes(4, "big") + FRAME[4:]:
                    tls.write(bytes([each]))
                for _ in range(size - len(FRAME)):
                    tls.write(b"x")
                plain.sendall(outgoing.read())
                counts["records"] += size

    return in_threads(CLIENTS, work, gate)


def _new_keys(target: Target, gate: Gate) -> Counts:
    """Request new keys as fast as `openssl s_client` can: a K on its terminal is one request."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "the attack needs the openssl command"
    command = [openssl, "s_client", "-connect", f"{target.host}:{target.tls_port}", "-tls1_3"]

    def work(_: int, counts: Counter[str]) -> None:
        while not gate.is_over():
            terminal, its_input = pty.openpty()
            os.set_blocking(terminal, False)
            client = subprocess.Popen(command, stdin=its_input, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                counts["connections"] += 1
                while client.poll() is None and not gate.is_over():
                    select.select([], [terminal], [], 0.05)
                    with contextlib.suppress(BlockingIOError):
                        os.write(terminal, LINES)
            finally:
                client.kill()
                client.wait()
                os.close(terminal)
                os.close(its_input)

    return in_threads(CLIENTS, work, gate)


ATTACKS = (
    Attack(
        name="tls-handshakes", family=FAMILY, run=_handshakes, uses_tls=True,
        what=f"{CLIENTS} clients do TLS handshakes and close, as fast as they can",
    ),
    Attack(
        name="small-tls-records", family=FAMILY, run=_small_records, uses_tls=True,
        what=f"{CLIENTS} clients send requests of {CHUNK // 1024} KiB in TLS records of a byte each",
    ),
    Attack(
        name="new-tls-keys", family=FAMILY, run=_new_keys, uses_tls=True,
        what=f"{CLIENTS} clients request new TLS keys as fast as they can, without any data",
    ),
)  # fmt: skip
