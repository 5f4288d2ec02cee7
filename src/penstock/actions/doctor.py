"""The steps of the doctor. Each returns what it found and, if that is not well, what to do.

Speaks the protocol by hand for its first words (ApiVersions v0 is six fields), so that it can
also tell what a port is that does not speak Kafka at all.
"""

import os
import socket
import struct
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from penstock.actions.connection import (
    CONNECT_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    bootstrap_addresses,
    connect,
    dial_secured,
    explain,
)
from penstock.cli.errors import CommandError
from penstock.model.errors import StartupError

API_VERSIONS = 18
ANSWER_SIZE_MAX = 1024 * 1024
SPACE_LEAST = 1024**3
SPACE_SHARE_LEAST = 0.05
# What every client of ours needs: Produce, Fetch, ListOffsets, Metadata.
NEEDED = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata"}
BORN = datetime(2024, 1, 1, tzinfo=UTC).timestamp()


class Check(NamedTuple):
    """One step: `ok`, `look` (it may matter) or `wrong` (it does)."""

    check: str
    state: str
    found: str
    next_step: str = ""


def check_cluster(bootstrap: str) -> Iterator[Check]:
    """Walk from the name of each address to the brokers behind it."""
    speaks = False
    for host, port in bootstrap_addresses(bootstrap):
        for result in check_address(host, port):
            yield result
            speaks = speaks or (result.check == f"protocol {host}:{port}" and result.state == "ok")
    if speaks:
        yield from check_brokers(bootstrap)


def check_address(host: str, port: int) -> Iterator[Check]:
    """Check one address: its name, its port, and what answers there."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        yield Check(f"name {host}", "wrong", str(error.strerror), "check the spelling, DNS, or /etc/hosts")
        return
    addresses = sorted({str(entry[4][0]) for entry in found})
    yield Check(f"name {host}", "ok", ", ".join(addresses))
    reached = [result for address in addresses if (result := _check_port(address, port)).state == "ok"]
    if not reached:
        yield _check_port(addresses[0], port)
        return
    silent = [address for address in addresses if address not in {result.found for result in reached}]
    if silent and host != "localhost":
        step = "clients try these too and lose time; take them out of DNS or listen there"
        yield Check(f"port {port}", "look", f"{', '.join(silent)} does not answer", step)
    yield Check(f"port {port}", "ok", f"open at {', '.join(result.found for result in reached)}")
    yield check_protocol(host, port)


def _check_port(address: str, port: int) -> Check:
    name = f"port {port}"
    try:
        connect(address, port).close()
    except ConnectionRefusedError:
        step = "start a broker there ('penstock start'), or correct the port"
        return Check(name, "wrong", f"nothing listens at {address}", step)
    except TimeoutError:
        step = "a firewall may drop the packets, or the machine is down"
        return Check(name, "wrong", f"no answer from {address} within {CONNECT_TIMEOUT_S:.0f} s", step)
    except OSError as error:
        return Check(name, "wrong", f"{address}: {error.strerror or error}", "check the network between here and there")
    return Check(name, "ok", address)


def check_protocol(host: str, port: int) -> Check:
    """Ask for the API versions, which every Kafka broker answers before anything else."""
    name = f"protocol {host}:{port}"
    try:
        with dial_secured(host, port) as sock:
            sock.sendall(api_versions_request())
            answer = _read_answer(sock)
    except TimeoutError:
        step = "the broker is overloaded, or the port is not Kafka's; if it wants TLS, a plain client waits like this"
        return Check(name, "wrong", f"connected, but silent for {CONNECT_TIMEOUT_S:.0f} s", step)
    except (ConnectionError, EOFError):
        step = "the port may want TLS or belong to another service (a controller's port also refuses clients)"
        return Check(name, "wrong", "connected, but it hung up on the first request", step)
    except CommandError as error:
        return Check(name, "wrong", str(error), "check the client properties given with --command-config or -X")
    except ValueError as error:
        step = "give the address of the broker's Kafka listener, or -X security.protocol=SSL if it speaks TLS"
        return Check(name, "wrong", str(error), step)
    try:
        ranges = parse_api_versions(answer)
    except (ValueError, struct.error):
        return Check(name, "wrong", "an answer that is not Kafka's", "give the address of the broker's Kafka listener")
    missing = [api for key, api in NEEDED.items() if key not in ranges]
    if missing:
        step = "this is not a listener for clients; look for another in 'listeners'"
        return Check(name, "wrong", f"Kafka's protocol without {', '.join(missing)}", step)
    versions = ", ".join(f"{api} {ranges[key][0]}-{ranges[key][1]}" for key, api in NEEDED.items())
    return Check(name, "ok", f"Kafka's protocol, {len(ranges)} APIs: {versions}")


def api_versions_request() -> bytes:
    client_id = b"penstock-doctor"
    body = struct.pack(f">hhih{len(client_id)}s", API_VERSIONS, 0, 1, len(client_id), client_id)
    return struct.pack(">i", len(body)) + body


def parse_api_versions(answer: bytes) -> dict[int, tuple[int, int]]:
    """Read a v0 answer: correlation id, error, then (key, least, most) for each API."""
    correlation, error, count = struct.unpack_from(">ihi", answer)
    if correlation != 1 or error != 0 or not 0 <= count <= (len(answer) - 10) // 6:
        raise ValueError("not an ApiVersions answer")
    return {key: (least, most) for key, least, most in struct.iter_unpack(">hhh", answer[10 : 10 + 6 * count])}


def _read_answer(sock: socket.socket) -> bytes:
    prefix = read_exactly(sock, 4)
    if prefix.startswith((b"HTTP", b"<htm")):
        raise ValueError("a web server answers there, not Kafka")
    if prefix[0] in (0x15, 0x16) and prefix[1] == 3:
        raise ValueError("it answers in TLS, and this client spoke plain text")
    if prefix.startswith(b"SSH-"):
        raise ValueError("an SSH server answers there, not Kafka")
    (size,) = struct.unpack(">i", prefix)
    if not 10 <= size <= ANSWER_SIZE_MAX:
        raise ValueError(f"something that is not Kafka answers: {prefix!r}")
    return read_exactly(sock, size)


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """Read that many bytes; EOFError if the other side hangs up first."""
    content = bytearray()
    while len(content) < size:
        received = sock.recv(min(65536, size - len(content)))
        if not received:
            raise EOFError
        content += received
    return bytes(content)


def check_brokers(bootstrap: str) -> Iterator[Check]:
    """Ask for the addresses that the cluster hands out: clients go there, not to --bootstrap."""
    from confluent_kafka import KafkaException, libversion

    try:
        metadata = _cluster_metadata(bootstrap)
    except KafkaException as error:
        yield Check("cluster", "wrong", explain(error.args[0]), "the broker's own log says more")
        return
    yield Check(
        "cluster", "ok", f"{metadata.cluster_id}, controller {metadata.controller_id}, librdkafka {libversion()[0]}"
    )
    for broker in sorted(metadata.brokers.values(), key=lambda broker: broker.id):
        where = f"{broker.host}:{broker.port}"
        try:
            connect(broker.host, broker.port).close()
        except OSError as error:
            step = f"set advertised.listeners of node {broker.id} to an address that clients can reach"
            why = "the name is not known here" if isinstance(error, socket.gaierror) else error.strerror or str(error)
            yield Check(f"broker {broker.id}", "wrong", f"advertised as {where}: {why}", step)
        else:
            yield Check(f"broker {broker.id}", "ok", f"advertised as {where} and reached there")
    read_only = _read_only(bootstrap)
    if read_only:
        step = "free space on their disks, or look for I/O errors in their logs; they take writes again by themselves"
        yield Check("disks", "wrong", f"brokers {', '.join(map(str, read_only))} are read-only", step)
    leaderless = [
        f"{name}-{partition.id}"
        for name, topic in metadata.topics.items()
        for partition in topic.partitions.values()
        if partition.leader < 0
    ]
    if leaderless:
        step = "start the brokers that hold their replicas; 'penstock topic describe' names them"
        shown = ", ".join(sorted(leaderless)[:5])
        yield Check("partitions", "wrong", f"{len(leaderless)} have no leader: {shown}", step)
    else:
        yield Check("partitions", "ok", f"{len(metadata.topics)} topics, every partition has a leader")


def _read_only(bootstrap: str) -> list[int]:
    from penstock.actions.cluster_client import ClusterError
    from penstock.actions.cluster.log_dirs import read_only_nodes
    from penstock.actions.connection import open_cluster

    try:
        with open_cluster(bootstrap) as cluster:
            return read_only_nodes(cluster, cluster.brokers)
    except ClusterError:
        return []


def _cluster_metadata(bootstrap: str) -> Any:
    from confluent_kafka.admin import AdminClient

    from penstock.actions.connection import client_settings

    return AdminClient(client_settings(bootstrap)).list_topics(timeout=REQUEST_TIMEOUT_S)


def check_data(folder: Path) -> Iterator[Check]:
    """Look at a data folder: is it there, can it be written, whose is it, is there room."""
    if not folder.is_dir():
        step = "'penstock start --data' makes it; if records should be there, check the path"
        yield Check("data", "look", f"there is no folder {folder}", step)
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        step = "give the folder to the user who runs the broker (chown)"
        yield Check("data", "wrong", f"{folder} cannot be written by user {os.getuid()}", step)
        return
    yield Check("data", "ok", f"{folder.resolve()} can be written")
    yield _check_owner(folder)
    yield _check_lock(folder)
    state = os.statvfs(folder)
    free, total = state.f_bavail * state.f_frsize, state.f_blocks * state.f_frsize
    found = f"{free / 1024**3:.1f} of {total / 1024**3:.1f} GiB free"
    if free < SPACE_LEAST or free < total * SPACE_SHARE_LEAST:
        step = "lower retention.bytes or retention.ms of large topics, or give the volume more room"
        yield Check("disk", "wrong" if free < SPACE_LEAST // 10 else "look", found, step)
    else:
        yield Check("disk", "ok", found)


def _check_owner(folder: Path) -> Check:
    from penstock.config.properties import parse_properties

    try:
        owner = parse_properties((folder / "meta.properties").read_text())
    except FileNotFoundError:
        return Check("identity", "ok", "no node has used the folder yet")
    except (OSError, UnicodeDecodeError, StartupError) as error:
        return Check("identity", "wrong", f"meta.properties cannot be read: {error}", "restore the file from a backup")
    return Check("identity", "ok", f"cluster {owner.get('cluster.id')}, node {owner.get('node.id')}")


def _check_lock(folder: Path) -> Check:
    from penstock.ports.real.folder_lock import is_folder_locked

    if is_folder_locked(str(folder)):
        return Check("lock", "ok", "a broker runs on the folder; a second one would be refused")
    return Check("lock", "ok", "no broker runs on the folder")


def check_clock(folder: Path | None) -> Check:
    """Compare the clock with a date it cannot be before, and with the newest file of the data folder."""
    now = time.time()
    found = datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")
    step = "set the clock (NTP): retention and lookups by time go by it"
    if now < BORN:
        return Check("clock", "wrong", f"{found} cannot be", step)
    newest = max((entry.stat().st_mtime for entry in folder.rglob("*.log")), default=now) if folder else now
    if newest > now + 60:
        return Check("clock", "look", f"{found}, but the data folder was written {newest - now:.0f} s later", step)
    return Check("clock", "ok", found)
