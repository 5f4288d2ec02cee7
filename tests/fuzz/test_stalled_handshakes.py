"""Connections that stop in the middle of a TLS or SASL handshake cost little memory, and are closed after a limit."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from pathlib import Path

import pytest

from benchmarks.proc import memory_mb
from tests.differential.entities import request_frame
from tests.support.penstock_process import PenstockProcess
from tests.support.ports import HOST, answers
from tests.support.security import Certificates, first_user

CONNECTIONS = 1000
MEMORY_MB_MAX = 130
CLOSED_S_MAX = 120
"""The limits are 10 and 30 seconds; the rest is for a busy machine."""
MECHANISM = "SCRAM-SHA-512"


def first_bytes_of_tls(context: ssl.SSLContext) -> bytes:
    """Return what a client sends first, without its end."""
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()[:-1]


def stalled(port: int, kind: int, context: ssl.SSLContext, hello: bytes) -> socket.socket:
    """Return a connection that goes no further: in the TLS handshake, after it, or between two messages of SCRAM."""
    plain = socket.create_connection((HOST, port), timeout=60)
    if kind == 0:
        plain.sendall(hello)
        return plain
    secured = context.wrap_socket(plain, server_hostname="localhost")
    if kind == 2:
        secured.sendall(request_frame("sasl_handshake", 1, {"mechanism": MECHANISM}))
        secured.recv(1000)
        secured.sendall(request_frame("sasl_authenticate", 1, {"auth_bytes": b"n,,n=alice,r=nonce"}))
        secured.recv(1000)
    return secured


def open_ones(connections: list[socket.socket]) -> list[socket.socket]:
    """Return the connections that the node has not closed."""
    poll = select.poll()
    for each in connections:
        poll.register(each, select.POLLIN)
    ended = {fd for fd, _ in poll.poll(0)}
    return [each for each in connections if each.fileno() not in ended]


@pytest.mark.slow
def test_a_thousand_stalled_handshakes_cost_little_and_are_closed(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    properties = {
        **certificates.broker_options(),
        "sasl.enabled.mechanisms": MECHANISM,
        "bootstrap.scram.credentials": first_user("alice", "wonderland"),
        "max.connections.per.ip": str(2 * CONNECTIONS),
        "max.connection.creation.rate.per.ip": "100000",
    }
    context = ssl.create_default_context(cafile=str(certificates.authority))
    hello = first_bytes_of_tls(context)
    with (
        PenstockProcess(properties=properties, listeners={"LOGIN": "SASL_SSL"}) as node,
        contextlib.ExitStack() as held,
    ):
        plain_port, port = (int(node.address(name).rpartition(":")[2]) for name in ("PLAINTEXT", "LOGIN"))
        before = memory_mb(node.pid)
        # The ones that are closed first come last.
        kinds = sorted((number % 3 for number in range(CONNECTIONS)), reverse=True)
        connections = [held.enter_context(stalled(port, kind, context, hello)) for kind in kinds]
        # Other clients are served, and by the time of the response the node has read what was sent before.
        assert answers(plain_port)
        cost, count = memory_mb(node.pid) - before, len(open_ones(connections))
        assert count and cost / count * CONNECTIONS < MEMORY_MB_MAX, (cost, count)
        print(f"{count} stalled connections cost {cost:.1f} MB")
        deadline = time.monotonic() + CLOSED_S_MAX
        while (left := open_ones(connections)) and time.monotonic() < deadline:
            time.sleep(0.1)  # the limits of the node are under test
        assert not left, f"{len(left)} connections are still open"
        assert answers(plain_port)
