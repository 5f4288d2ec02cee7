"""Checks for a client that cannot connect. Each check reports what it found and, if there is a problem, what to do.

The first request is encoded by hand (ApiVersions v0), so that a port that does not speak Kafka can be identified.
"""

import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.actions.connection import (
    CONNECT_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    Connection,
    open_secured_socket,
    open_socket,
)
from penstock.actions.errors import ActionError
from penstock.actions.librdkafka import action_error, open_admin
from penstock.actions.security_doctor import Check, check_encryption, check_login, uses_sasl
from penstock.model.errors import StartupError

if TYPE_CHECKING:
    from penstock.actions.cluster.log_dirs import ReadOnlyLogDir

API_VERSIONS = 18
RESPONSE_SIZE_MAX = 1024 * 1024
FREE_SPACE_MIN = 1024**3
FULL_MAX = 16 * 1024**2
"""The default of log.reserve.bytes: a broker with less free space accepts no writes."""
FREE_SPACE_SHARE_MIN = 0.05
REQUIRED_APIS = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata"}
# No system clock can correctly be before this date.
CLOCK_MIN = datetime(2024, 1, 1, tzinfo=UTC).timestamp()


def check_cluster(connection: Connection) -> Iterator[Check]:
    """Check every bootstrap address, then the brokers of the cluster if one of them can be used."""
    is_usable = False
    for host, port in connection.addresses:
        results = []
        for result in check_address(host, port, connection.security):
            yield result
            results.append(result)
        is_usable = is_usable or all(result.state != "wrong" for result in results)
    if is_usable:
        yield from check_brokers(connection)


def check_address(host: str, port: int, security: Mapping[str, str]) -> Iterator[Check]:
    """Check the host name, the port, and the protocol of an address."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        yield Check(f"name {host}", "wrong", str(error.strerror), "Check the spelling, DNS and /etc/hosts.")
        return
    addresses = sorted({str(entry[4][0]) for entry in found})
    yield Check(f"name {host}", "ok", ", ".join(addresses))
    reached = [result for address in addresses if (result := _check_port(address, port)).state == "ok"]
    if not reached:
        yield _check_port(addresses[0], port)
        return
    silent = [address for address in addresses if address not in {result.found for result in reached}]
    if silent and host != "localhost":
        step = "Clients try these addresses too, which delays them. Remove them from DNS or listen on them."
        yield Check(f"port {port}", "warning", f"{', '.join(silent)} does not accept connections", step)
    yield Check(f"port {port}", "ok", f"open at {', '.join(result.found for result in reached)}")
    encryption = list(check_encryption(host, port, security))
    yield from encryption
    if any(result.state == "wrong" for result in encryption):
        return
    # With SASL, a broker answers the first request only after the login.
    checks = [check_protocol, check_login]
    for check in reversed(checks) if uses_sasl(security) else checks:
        result = check(host, port, security)
        yield result
        if result.state == "wrong":
            return


def _check_port(address: str, port: int) -> Check:
    name = f"port {port}"
    try:
        open_socket(address, port).close()
    except ConnectionRefusedError:
        step = "Start a broker there or correct the port."
        return Check(name, "wrong", f"connection refused by {address}", step)
    except TimeoutError:
        step = "Check whether the machine is up and whether a firewall drops packets."
        return Check(name, "wrong", f"no response from {address} within {CONNECT_TIMEOUT_S:.0f} s", step)
    except OSError as error:
        return Check(
            name,
            "wrong",
            f"{address}: {error.strerror or error}",
            "Check the network between this machine and the broker.",
        )
    return Check(name, "ok", address)


def check_protocol(host: str, port: int, security: Mapping[str, str]) -> Check:
    """Send an ApiVersions request, which every Kafka broker answers."""
    name = f"protocol {host}:{port}"
    try:
        with open_secured_socket(host, port, security) as sock:
            sock.sendall(api_versions_request())
            answer = _read_response(sock)
    except TimeoutError:
        step = "The broker may be overloaded, expect TLS, or not be a Kafka broker."
        return Check(name, "wrong", f"connected, but no response within {CONNECT_TIMEOUT_S:.0f} s", step)
    except (ConnectionError, EOFError):
        step = "The port may expect TLS, or belong to a controller or another service."
        return Check(name, "wrong", "connected, but the connection was closed after the first request", step)
    except ActionError as error:
        return Check(name, "wrong", str(error), "Check the client properties.")
    except ValueError as error:
        step = "Use the address of a Kafka listener, and security.protocol=SSL if it expects TLS."
        return Check(name, "wrong", str(error), step)
    try:
        ranges = parse_api_versions(answer)
    except (ValueError, struct.error):
        return Check(name, "wrong", "the response is not Kafka's", "Use the address of a Kafka listener.")
    missing = [api for key, api in REQUIRED_APIS.items() if key not in ranges]
    if missing:
        step = "This is not a listener for clients. Use another address of 'listeners'."
        return Check(name, "wrong", f"Kafka protocol without {', '.join(missing)}", step)
    versions = ", ".join(f"{api} {ranges[key][0]}-{ranges[key][1]}" for key, api in REQUIRED_APIS.items())
    return Check(name, "ok", f"Kafka protocol, {len(ranges)} APIs: {versions}")


def api_versions_request() -> bytes:
    client_id = b"penstock-doctor"
    body = struct.pack(f">hhih{len(client_id)}s", API_VERSIONS, 0, 1, len(client_id), client_id)
    return struct.pack(">i", len(body)) + body


def parse_api_versions(answer: bytes) -> dict[int, tuple[int, int]]:
    """Parse a v0 response: correlation id, error, then (key, min, max) for each API."""
    correlation, error, count = struct.unpack_from(">ihi", answer)
    if correlation != 1 or error != 0 or not 0 <= count <= (len(answer) - 10) // 6:
        raise ValueError("not an ApiVersions response")
    return {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])}


def _read_response(sock: socket.socket) -> bytes:
    prefix = read_exactly(sock, 4)
    if prefix.startswith((b"HTTP", b"<htm")):
        raise ValueError("the port belongs to a web server")
    if prefix[0] in (0x15, 0x16) and prefix[1] == 3:
        raise ValueError("the port expects TLS, but the connection is plaintext")
    if prefix.startswith(b"SSH-"):
        raise ValueError("the port belongs to an SSH server")
    (size,) = struct.unpack(">i", prefix)
    if not 10 <= size <= RESPONSE_SIZE_MAX:
        raise ValueError(f"the response is not Kafka's: {prefix!r}")
    return read_exactly(sock, size)


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes; raise EOFError if the peer closes the connection first."""
    content = bytearray()
    while len(content) < size:
        received = sock.recv(min(65536, size - len(content)))
        if not received:
            raise EOFError
        content += received
    return bytes(content)


def check_brokers(connection: Connection) -> Iterator[Check]:
    """Check the advertised addresses of all brokers, which clients use after the first request."""
    from confluent_kafka import KafkaException, libversion

    try:
        metadata: Any = open_admin(connection).list_topics(timeout=REQUEST_TIMEOUT_S)
    except KafkaException as error:
        yield Check("cluster", "wrong", str(action_error(error.args[0])), "Check the log of the broker.")
        return
    yield Check(
        "cluster", "ok", f"{metadata.cluster_id}, controller {metadata.controller_id}, librdkafka {libversion()[0]}"
    )
    for broker in sorted(metadata.brokers.values(), key=lambda broker: broker.id):
        address = f"{broker.host}:{broker.port}"
        try:
            open_socket(broker.host, broker.port).close()
        except OSError as error:
            step = f"Set advertised.listeners of node {broker.id} to an address that clients can reach."
            why = (
                "the host name cannot be resolved"
                if isinstance(error, socket.gaierror)
                else error.strerror or str(error)
            )
            yield Check(f"broker {broker.id}", "wrong", f"advertised as {address}: {why}", step)
        else:
            yield Check(f"broker {broker.id}", "ok", f"advertised as {address}, reachable")
    for log_dir in unwritable_log_dirs(connection):
        step = (
            "Free space, or shorten retention. The broker then accepts writes again without a restart."
            if log_dir.is_full
            else "Look for I/O errors in the log of the broker."
        )
        yield Check("disks", "wrong", str(log_dir), step)
    leaderless = [
        f"{name}-{partition.id}"
        for name, topic in metadata.topics.items()
        for partition in topic.partitions.values()
        if partition.leader < 0
    ]
    if leaderless:
        step = "Start the brokers that hold their replicas."
        shown = ", ".join(sorted(leaderless)[:5])
        yield Check("partitions", "wrong", f"{len(leaderless)} have no leader: {shown}", step)
    else:
        yield Check("partitions", "ok", f"{len(metadata.topics)} topics, every partition has a leader")


def unwritable_log_dirs(connection: Connection) -> "list[ReadOnlyLogDir]":
    """Return the log directories that accept no writes; none if the brokers do not say."""
    from penstock.actions.cluster.log_dirs import read_only_log_dirs
    from penstock.actions.cluster_client import open_cluster

    try:
        with open_cluster(connection) as cluster:
            return read_only_log_dirs(cluster, cluster.brokers)
    except ActionError:
        return []


def check_data(folder: Path) -> Iterator[Check]:
    """Check a data folder: whether it exists, its permissions, its owner, its lock and free space."""
    if not folder.is_dir():
        step = "A broker creates it at its first start. If it should exist, check the path."
        yield Check("data", "warning", f"{folder} does not exist", step)
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        step = "Change its owner to the user who runs the broker (chown)."
        yield Check("data", "wrong", f"{folder} is not writable by user {os.getuid()}", step)
        return
    yield Check("data", "ok", f"{folder.resolve()} is writable")
    yield _check_owner(folder)
    yield _check_lock(folder)
    state = os.statvfs(folder)
    free, total = state.f_bavail * state.f_frsize, state.f_blocks * state.f_frsize
    found = f"{free / 1024**3:.1f} of {total / 1024**3:.1f} GiB free"
    if free < FULL_MAX:
        found = f"disk full: {folder} has {free / 1024**2:.1f} MiB free and needs {FULL_MAX / 1024**2:.0f} MiB or more"
    if free < FREE_SPACE_MIN or free < total * FREE_SPACE_SHARE_MIN:
        step = "Lower retention.bytes or retention.ms of large topics, or enlarge the volume."
        yield Check("disk", "wrong" if free < FREE_SPACE_MIN // 10 else "warning", found, step)
    else:
        yield Check("disk", "ok", found)


def _check_owner(folder: Path) -> Check:
    from penstock.config.properties import parse_properties

    try:
        owner = parse_properties((folder / "meta.properties").read_text())
    except FileNotFoundError:
        return Check("identity", "ok", "not used by a node yet")
    except (OSError, UnicodeDecodeError, StartupError) as error:
        return Check("identity", "wrong", f"cannot read meta.properties: {error}", "Restore the file from a backup.")
    return Check("identity", "ok", f"cluster {owner.get('cluster.id')}, node {owner.get('node.id')}")


def _check_lock(folder: Path) -> Check:
    from penstock.ports.real.folder_lock import is_folder_locked

    if is_folder_locked(str(folder)):
        return Check("lock", "ok", "locked by a running broker")
    return Check("lock", "ok", "not locked: no broker uses the folder")


def check_clock(folder: Path | None) -> Check:
    """Compare the clock with a date in the past and with the newest segment of the data folder."""
    now = time.time()
    found = datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")
    step = "Set the clock (NTP). Retention and lookups by time depend on it."
    if now < CLOCK_MIN:
        return Check("clock", "wrong", f"{found} is in the past", step)
    newest = max((entry.stat().st_mtime for entry in folder.rglob("*.log")), default=now) if folder else now
    if newest > now + 60:
        return Check("clock", "warning", f"{found}, but the data folder was modified {newest - now:.0f} s later", step)
    return Check("clock", "ok", found)
