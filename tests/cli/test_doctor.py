"""`penstock doctor` at an address that does not belong to a Kafka broker: it says what it found, and what to do."""

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socket import create_server

import pytest

from penstock.actions.doctor import check_protocol


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Listen on a port; send the answer to the first client's request, and close the connection."""
    with create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1000)
                client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("answer", "found", "step"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the port belongs to a web server", "Use the address of a Kafka"),
        (b"<html><body>", "the port belongs to a web server", "Use the address of a Kafka listener"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "the port expects TLS, but", "security.protocol=SSL"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the port belongs to an SSH server", "Use the address of a Kafka listener"),
        (b"+PONG\r\n", "the response is not Kafka's: b'+PON'", "Use the address of a Kafka listener"),
        (framed(bytes(12)), "the response is not Kafka's", "Use the address of a Kafka listener"),
        (framed(bytes(40))[:20], "the connection was closed after the first request", "may expect TLS"),
        (b"", "the connection was closed after the first request", "may expect TLS"),
        (framed(struct.pack(">ihi", 1, 0, 1) + struct.pack(">hhh", 18, 0, 4)), "Kafka protocol without ",
         "This is not a listener for clients"),
    ],
)  # fmt: skip
def test_a_port_of_something_else_is_recognized(answer: bytes, found: str, step: str) -> None:
    with answering(answer) as port:
        check = check_protocol("127.0.0.1", port, {})
    assert check.state == "wrong"
    assert found in check.found
    assert step in check.next_step
