"""`python -m benchmarks.tls`: Penstock and Apache Kafka over TLS, in alternating rounds; the best round of each counts.

The load is a Python client on one connection, so throughput is limited by the client; the CPU time of the server is
not. Rows: fetch of 1 MB and produce of 256 KB in CPU seconds per GB, also in plain text; small requests per second;
logins with TLS and SCRAM-SHA-512, per second and in CPU milliseconds each; memory with 1,000 TLS connections.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.frames import fetch_frame, produce_frame
from benchmarks.proc import cpu_seconds, memory_mb
from penstock.security.scram import ScramClient
from tests.differential.entities import read_response, request_frame
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing
from tests.support.penstock_process import PenstockProcess
from tests.support.security import Certificates

TOPIC: Final = "tls"
LISTENERS: Final = {"TLS": "SSL", "LOGIN": "SASL_SSL"}
MECHANISM: Final = "SCRAM-SHA-512"
USER, PASSWORD = "bench", "secret"
FETCH_SIZE: Final = 1_000_000
PRODUCE_SIZE: Final = 256_000
CONNECTIONS: Final = 1000

Server = ApacheKafka | PenstockProcess
Figures = dict[str, float]


class Client:
    """A connection that sends one request at a time."""

    def __init__(self, address: str, context: ssl.SSLContext | None) -> None:
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        self._buffer = memoryview(bytearray(4 * FETCH_SIZE))

    def ask(self, frame: bytes) -> memoryview:
        """Return the response without its size prefix. It is valid until the next call."""
        self._socket.sendall(frame)
        self._fill(4)
        size = int.from_bytes(self._buffer[:4], "big")
        self._fill(size)
        return self._buffer[:size]

    def _fill(self, size: int) -> None:
        got = 0
        while got < size:
            count = self._socket.recv_into(self._buffer[got:size])
            if not count:
                raise ConnectionError("the server closed the connection")
            got += count

    def log_in(self) -> None:
        login = ScramClient(MECHANISM, USER, PASSWORD, nonce="nonce", derive=_derive)
        self.ask(request_frame("sasl_handshake", 1, {"mechanism": MECHANISM}))
        token: bytes | None = login.first()
        while token is not None:
            answer = bytes(self.ask(request_frame("sasl_authenticate", 1, {"auth_bytes": token})))
            token = login.step(bytes.fromhex(read_response("sasl_authenticate", 1, answer)["auth_bytes"]))

    def close(self) -> None:
        self._socket.close()


_salted: dict[tuple[bytes, int], bytes] = {}


def _derive(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive the salted password once: the time of the client must not limit the server."""
    from penstock.security.scram import salted_password

    if (salt, iterations) not in _salted:
        _salted[salt, iterations] = salted_password(mechanism, password, salt, iterations)
    return _salted[salt, iterations]


def _prepare(server: Server) -> None:
    """Create the topic with records to fetch, and the user."""
    client = Client(server.bootstrap, None)
    wanted = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1, "configs": []}
    client.ask(request_frame("create_topics", 7, {"topics": [wanted], "timeout": 10_000}))
    salt = b"0123456789abcdef01234567"
    upsertion = {"name": USER, "mechanism": 2, "iterations": 4096, "salt": salt,
                 "salted_password": _derive(MECHANISM, PASSWORD, salt, 4096)}  # fmt: skip
    client.ask(request_frame("alter_user_scram_credentials", 0, {"deletions": [], "upsertions": [upsertion]}))
    time.sleep(2)  # Kafka applies both a little later
    frame = produce_frame(TOPIC, size=PRODUCE_SIZE)
    for _ in range(8):
        client.ask(frame)
    client.close()


def _cpu_per_gb(server: Server, client: Client, frame: bytes, *, seconds: float, counts_response: bool) -> Figures:
    for _ in range(20):
        client.ask(frame)
    moved, began, cpu = 0, time.monotonic(), cpu_seconds(server.pid)
    while time.monotonic() - began < seconds:
        answer = client.ask(frame)
        moved += len(answer) if counts_response else len(frame)
    spent = cpu_seconds(server.pid) - cpu
    client.close()
    return {"cpu s/GB": spent / moved * 1e9, "MB/s": moved / (time.monotonic() - began) / 1e6}


def fetch(server: Server, listener: str, context: ssl.SSLContext | None, seconds: float) -> Figures:
    client = Client(server.address(listener), context)
    return _cpu_per_gb(server, client, fetch_frame(TOPIC, size=FETCH_SIZE), seconds=seconds, counts_response=True)


def produce(server: Server, listener: str, context: ssl.SSLContext | None, seconds: float) -> Figures:
    client = Client(server.address(listener), context)
    return _cpu_per_gb(server, client, produce_frame(TOPIC, size=PRODUCE_SIZE), seconds=seconds, counts_response=False)


def small_requests(server: Server, listener: str, context: ssl.SSLContext | None, seconds: float) -> Figures:
    client = Client(server.address(listener), context)
    frame = request_frame("list_groups", 4, {})
    for _ in range(200):
        client.ask(frame)
    count, began, cpu = 0, time.monotonic(), cpu_seconds(server.pid)
    while time.monotonic() - began < seconds:
        client.ask(frame)
        count += 1
    figures = {
        "requests/s": count / (time.monotonic() - began),
        "cpu us": (cpu_seconds(server.pid) - cpu) / count * 1e6,
    }
    client.close()
    return figures


def logins(server: Server, listener: str, context: ssl.SSLContext | None, seconds: float) -> Figures:
    for _ in range(50):
        _logged_in(server, listener, context).close()
    count, began, cpu = 0, time.monotonic(), cpu_seconds(server.pid)
    while time.monotonic() - began < seconds:
        _logged_in(server, listener, context).close()
        count += 1
    spent = cpu_seconds(server.pid) - cpu
    return {"logins/s": count / (time.monotonic() - began), "cpu ms": spent / count * 1e3}


def _logged_in(server: Server, listener: str, context: ssl.SSLContext | None) -> Client:
    client = Client(server.address(listener), context)
    client.log_in()
    return client


def memory(server: Server, listener: str, context: ssl.SSLContext | None, _: float) -> Figures:
    question = request_frame("api_versions", 0, {})
    before = memory_mb(server.pid)
    clients = []
    for _ in range(CONNECTIONS):
        client = Client(server.address(listener), context)
        client._buffer = memoryview(bytearray(1 << 16))
        client.ask(question)
        clients.append(client)
    figures = {"MB": memory_mb(server.pid), "MB before": before}
    for client in clients:
        client.close()
    return figures


Measure = Callable[[Server, str, ssl.SSLContext | None, float], Figures]
MEASURES: Final[tuple[tuple[str, Measure, str, str], ...]] = (
    # Name, function, listener, the figure that decides which round is best (a leading - means that less is better).
    ("fetch 1 MB, plain text", fetch, "PLAINTEXT", "-cpu s/GB"),
    ("fetch 1 MB, TLS", fetch, "TLS", "-cpu s/GB"),
    ("produce 256 KB, plain text", produce, "PLAINTEXT", "-cpu s/GB"),
    ("produce 256 KB, TLS", produce, "TLS", "-cpu s/GB"),
    ("small requests, plain text", small_requests, "PLAINTEXT", "requests/s"),
    ("small requests, TLS", small_requests, "TLS", "requests/s"),
    ("TLS and SCRAM logins", logins, "LOGIN", "-cpu ms"),
    ("memory at 1,000 TLS connections", memory, "TLS", "-MB"),
)


def _properties(certificates: Certificates) -> dict[str, str]:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        **certificates.broker_options(),
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.login.{MECHANISM.lower()}.sasl.jaas.config": module,
        "max.connections.per.ip": str(4 * CONNECTIONS),
    }


def _is_better(key: str, new: Figures, old: Figures | None) -> bool:
    name = key.removeprefix("-")
    return old is None or (new[name] < old[name] if key.startswith("-") else new[name] > old[name])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tls")
    parser.add_argument("-k", dest="pattern", default="", help="only rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="duration of each measurement")
    parser.add_argument("--no-kafka", action="store_true", help="only Penstock")
    options = parser.parse_args()
    with ExitStack() as running:
        certificates = Certificates(Path(running.enter_context(tempfile.TemporaryDirectory())))
        properties = _properties(certificates)
        unlimited = {"max.connection.creation.rate.per.ip": "100000"}  # an option of Penstock
        servers: list[Server] = [PenstockProcess(properties=properties | unlimited, listeners=LISTENERS)]
        if not options.no_kafka:
            try:
                servers.append(ApacheKafka(quick=False, properties=properties, listeners=LISTENERS))
            except JavaMissing as reason:
                print(f"without Apache Kafka: {reason}")
        for server in servers:
            running.enter_context(server)
            _prepare(server)
        context = ssl.create_default_context(cafile=str(certificates.authority))
        best: dict[tuple[str, str], Figures] = {}
        for _ in range(options.rounds):
            for name, measure, listener, key in MEASURES:
                if options.pattern not in name:
                    continue
                for server in servers:
                    secured = None if listener == "PLAINTEXT" else context
                    found = measure(server, listener, secured, options.seconds)
                    if _is_better(key, found, best.get((name, server.name))):
                        best[name, server.name] = found
        for name, *_ in MEASURES:
            for server in servers:
                if (name, server.name) in best:
                    shown = ", ".join(f"{value:.4g} {unit}" for unit, value in best[name, server.name].items())
                    print(f"{name:34} {server.name:14} {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
