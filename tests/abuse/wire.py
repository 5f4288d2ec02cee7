"""Requests encoded from plain dictionaries, and one blocking connection to send them."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from tests.abuse.attack import Target
from tests.differential.entities import framed, read_response, request_frame

__all__ = ["Client", "connect", "create_topics", "fetch", "framed", "produce", "read_response", "request_frame"]

ANSWER_S_MAX = 30.0
PRODUCE_VERSION, FETCH_VERSION, CREATE_TOPICS_VERSION = 7, 11, 5
_CORRELATION_AT = 8
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A complete frame, to check that the node responds."""


class Closed(ConnectionError):
    """The node closed the connection."""


def connect(target: Target, *, timeout_s: float = ANSWER_S_MAX, port: int = 0) -> socket.socket:
    connection = socket.create_connection((target.host, port or target.port), timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Client:
    """One connection, one request at a time."""

    def __init__(self, target: Target, *, timeout_s: float = ANSWER_S_MAX) -> None:
        self.socket = connect(target, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def exchange(self, frame: bytes) -> bytes:
        """Send a complete frame; return the response without its size."""
        self.socket.sendall(frame)
        return self.receive()

    def receive(self) -> bytes:
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def ask(self, api: str, version: int, values: Mapping[str, Any]) -> dict[str, Any]:
        return read_response(api, version, self.exchange(request_frame(api, version, values)))

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        filled = 0
        while filled < size:
            count = self.socket.recv_into(view[filled:])
            if count == 0:
                raise Closed("the node closed the connection")
            filled += count
        return bytes(data)


def produce(parts: Iterable[tuple[str, int, bytes]], *, acks: int = -1, timeout_ms: int = 30_000) -> bytes:
    """Return the frame of a Produce request with a batch for each topic and partition."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, batch in parts:
        topics.setdefault(topic, []).append({"index": partition, "records": batch})
    rows = [{"name": name, "partition_data": partitions} for name, partitions in topics.items()]
    return request_frame("produce", PRODUCE_VERSION, {"acks": acks, "timeout": timeout_ms, "topic_data": rows})


def produced(frame: bytes) -> tuple[str, int]:
    """Return the error and the offset of the first partition in a Produce response."""
    first = read_response("produce", PRODUCE_VERSION, frame)["responses"][0]["partition_responses"][0]
    return str(first["error_code"]), int(first["base_offset"])


def fetch(topic: str, partition: int, offset: int, *, size_max: int = 4_000_000) -> bytes:
    return fetch_many([(topic, partition, offset)], size_max=size_max)


def fetch_many(parts: Sequence[tuple[str, int, int]], *, size_max: int = 4_000_000) -> bytes:
    """Return the frame of a Fetch request, without a session, for topics, partitions and offsets."""
    topics: dict[str, list[dict[str, int]]] = {}
    for topic, partition, offset in parts:
        row = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": size_max}
        topics.setdefault(topic, []).append(row | {"current_leader_epoch": -1, "log_start_offset": -1})
    rows = [{"topic": name, "partitions": partitions} for name, partitions in topics.items()]
    values = {"replica_id": -1, "max_wait": 500, "min_bytes": 1, "max_bytes": size_max, "topics": rows}
    return request_frame("fetch", FETCH_VERSION, values | {"session_epoch": -1, "rack_id": ""})


def fetched(frame: bytes) -> bytes:
    """Return the records of the only partition in the response to `fetch`. Raises ValueError for an error."""
    # Read by position: the records may be megabytes, which the schema's reader would hex-dump.
    _, _, error, _, topics = struct.unpack_from(">iihii", frame, 0)
    if error or topics != 1:
        raise ValueError(f"Fetch failed with {error}")
    (name_size,) = struct.unpack_from(">h", frame, 18)
    at = 20 + name_size
    partitions, _, error, _, _, _, aborted = struct.unpack_from(">iihqqqi", frame, at)
    if error or partitions != 1:
        raise ValueError(f"Fetch failed with {error}")
    at += 38 + 16 * max(0, aborted) + 4
    (size,) = struct.unpack_from(">i", frame, at)
    return frame[at + 4 : at + 4 + max(0, size)]


def create_topics(target: Target, names: Iterable[str], *, partitions: int = 1, **configs: str) -> None:
    """Create topics and wait until each of them has leaders."""
    rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    wanted = list(names)
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": rows}
        for name in wanted
    ]
    with Client(target) as client:
        values = {"topics": topics, "timeout": 60_000, "validate_only": False}
        answer = client.ask("create_topics", CREATE_TOPICS_VERSION, values)
        errors = {row["error_code"] for row in answer["topics"]} - {"0 none", "36 topic_already_exists"}
        assert not errors, f"CreateTopics failed with {errors}"
        deadline = time.monotonic() + 60
        while not _have_leaders(client, wanted):
            assert time.monotonic() < deadline, f"the topics {wanted[:3]}... have no leaders after a minute"
            time.sleep(0.05)


def start_coordinators(target: Target) -> None:
    """Create the internal topics of groups and transactions, and wait until their coordinators respond."""
    with Client(target) as client:
        for key_type in (0, 1):
            find = {"key_type": key_type, "coordinator_keys": ["first"]}
            _until_good(partial(_coordinator, client, find))
        fetch_all = {"groups": [{"group_id": "first", "topics": None}]}
        _until_good(lambda: client.ask("offset_fetch", 8, fetch_all)["groups"][0])
        begin = {"transactional_id": "first", "transaction_timeout": 60_000}
        _until_good(lambda: client.ask("init_producer_id", 1, begin))


def _coordinator(client: Client, values: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = client.ask("find_coordinator", 4, values)["coordinators"][0]
    return found


def _until_good(ask: Callable[[], Mapping[str, Any]]) -> None:
    deadline = time.monotonic() + 60
    while (error := ask()["error_code"]) != "0 none":
        assert time.monotonic() < deadline, f"a coordinator still returns {error} after a minute"
        time.sleep(0.05)


def _have_leaders(client: Client, names: Sequence[str]) -> bool:
    answer = client.ask("metadata", 8, {"topics": [{"name": name} for name in names]})
    return all(
        row["error_code"] == "0 none" and all(part["leader_id"] >= 0 for part in row["partitions"])
        for row in answer["topics"]
    )
