"""Cluster metadata, offsets, and connections to brokers.

`Cluster` keeps one connection per broker and fetches metadata on demand. Every request here is idempotent, so it
is retried with fresh metadata until `deadline_s` has passed. Calls connection.py. Raises NoBroker and BrokerError.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from penstock_client.errors import (
    PASSING,
    UNKNOWN_TOPIC,
    UNKNOWN_TOPIC_ID,
    BrokerError,
    NoBroker,
    PenstockClientError,
    partition_error,
)
from penstock_client.protocol.connection import Connection, ConnectionLost
from penstock_client.protocol.wire import Reader, Writer

T = TypeVar("T")

EARLIEST: Final = -2
LATEST: Final = -1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
GROUP: Final = 0
TRANSACTION: Final = 1

LIST_OFFSETS: Final = 2
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
CREATE_TOPICS: Final = 19

_NO_ID: Final = bytes(16)
_FIRST_CONTACT_S: Final = 20.0
_PAUSE_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its id, and the leader of each partition (-1 if there is none)."""

    name: str
    topic_id: bytes
    leaders: Mapping[int, int]

    @property
    def id_text(self) -> str:
        """Return the id as Kafka's tools print it, or an empty string if the broker has none."""
        if self.topic_id == _NO_ID:
            return ""
        return base64.urlsafe_b64encode(self.topic_id).rstrip(b"=").decode()


@dataclass
class Cluster:
    """Metadata and connections. Not shared between threads or processes; pickles without its connections."""

    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float = 60.0
    request_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[int, str], Connection] = {}
        self._seed: Connection | None = None
        self._coordinators: dict[tuple[int, str], int] = {}
        self.topics: dict[str, Topic] = {}

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("bootstrap", "settings", "deadline_s", "request_timeout_s")}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        if self._seed is not None:
            self._seed.close()
            self._seed = None

    def rest(self) -> None:
        """Reset the state but keep connections: drops topic metadata and connections with outstanding responses."""
        for key, connection in list(self._connections.items()):
            if connection.waiting_count:
                connection.close()
                del self._connections[key]
        self.topics.clear()

    # Connections

    def to_node(self, node: int, lane: str = "calls") -> Connection:
        """Return the connection to a broker, connecting if necessary. Pipelined requests use a separate lane."""
        found = self._connections.get((node, lane))
        if found is not None and found.fileno() >= 0:
            return found
        if node not in self._addresses:
            self.refresh()
        if node not in self._addresses:
            raise ConnectionLost(f"broker {node} is not in the cluster's metadata")
        host, port = self._addresses[node]
        made = Connection(host, port, self.settings, timeout_s=self.request_timeout_s)
        self._connections[node, lane] = made
        return made

    def drop(self, node: int, lane: str = "calls") -> None:
        """Close a connection, even if responses are outstanding."""
        found = self._connections.pop((node, lane), None)
        if found is not None:
            found.close()

    def nodes(self) -> list[int]:
        if not self._addresses:
            self.refresh()
        return sorted(self._addresses)

    def any(self) -> Connection:
        """Return a connection to any broker that responds."""
        if self._seed is not None and self._seed.fileno() >= 0:
            return self._seed
        for (_, lane), connection in self._connections.items():
            if lane == "calls" and connection.fileno() >= 0:
                return connection
        reasons = []
        known = list(self._addresses.values())
        for host, port in [*parse_addresses(self.bootstrap), *known]:
            try:
                self._seed = Connection(host, port, self.settings, timeout_s=self.request_timeout_s)
                return self._seed
            except ConnectionLost as error:
                reasons.append(str(error))
        raise NoBroker(
            f"no broker responded at {self.bootstrap} ({'; '.join(reasons)}). "
            "Check that a broker is running and that kafka.bootstrap.servers is correct."
        )

    def retrying(self, what: str, step: Callable[[], T]) -> T:
        """Run a repeatable step until it succeeds, fails permanently, or the deadline has passed."""
        started = time.monotonic()
        attempt = 0
        while True:
            try:
                return step()
            except (ConnectionLost, NoBroker, BrokerError) as error:
                if isinstance(error, BrokerError) and not error.passing:
                    raise
                # If no broker has ever responded, the address is probably wrong, and a long wait does not help.
                never = isinstance(error, NoBroker) and not self._addresses
                if time.monotonic() - started > (min(self.deadline_s, _FIRST_CONTACT_S) if never else self.deadline_s):
                    if isinstance(error, BrokerError | NoBroker):
                        raise
                    raise NoBroker(f"{what} failed for {self.deadline_s:.0f} s; the last error was: {error}") from error
                self.forget_coordinators()
            time.sleep(_PAUSE_S[min(attempt, len(_PAUSE_S) - 1)])
            attempt += 1

    # Metadata

    def refresh(self, names: Iterable[str] | None = ()) -> dict[str, Topic]:
        """Fetch metadata of the named topics (empty: only brokers; None: all topics). Unknown topics are left out."""

        def attempt() -> dict[str, Topic]:
            body = Writer(compact=True)
            body.array(names, lambda name: body.raw(_NO_ID).string(name).tags())
            body.boolean(False).boolean(False).tags()
            try:
                reply = self.any().call(METADATA, 12, body)
            except ConnectionLost:
                self._seed = None
                raise
            return self._read_metadata(reply)

        found = self.retrying("fetching metadata", attempt)
        self.topics.update(found)
        return found

    def _read_metadata(self, reply: Reader) -> dict[str, Topic]:
        reply.int32()

        def broker() -> None:
            node, host, port = reply.int32(), reply.string(), reply.int32()
            reply.nullable_string()
            reply.tags()
            self._addresses[node] = (host, port)

        def partition() -> tuple[int, int]:
            reply.int16()
            index, leader = reply.int32(), reply.int32()
            reply.int32()
            for _ in range(3):
                reply.array(reply.int32)
            reply.tags()
            return index, leader

        def topic() -> tuple[int, Topic]:
            code, name, topic_id = reply.int16(), reply.string(), reply.uuid()
            reply.boolean()
            leaders = dict(reply.array(partition))
            reply.int32()
            reply.tags()
            return code, Topic(name, topic_id, leaders)

        self._addresses.clear()
        reply.array(broker)
        reply.nullable_string()
        reply.int32()
        found = {}
        for code, one in reply.array(topic):
            if code in (UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID):
                self.topics.pop(one.name, None)
            elif code:
                raise BrokerError(code, f"topic {one.name!r}")
            else:
                found[one.name] = one
        return found

    def topic(self, name: str) -> Topic:
        """Return the metadata of one topic. Raises if it does not exist."""
        found = self.topics.get(name) or self.refresh([name]).get(name)
        if found is None:
            raise unknown_topic(name, self.bootstrap)
        return found

    def leader(self, topic: str, partition: int) -> int:
        leaders = self.topic(topic).leaders
        if partition not in leaders:
            raise PenstockClientError(
                f"topic {topic!r} has no partition {partition}: its partitions are 0 to {len(leaders) - 1}"
            )
        if leaders[partition] < 0:
            raise BrokerError(5, f"{topic}-{partition}")
        return leaders[partition]

    # Offsets

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        """Return the offset for each timestamp (or EARLIEST, LATEST); -1 if all records are older."""
        missing = {name for name, _ in wanted} - set(self.topics)
        if missing:
            self.refresh(missing)
        found: dict[TopicPartition, int] = {}

        def attempt() -> None:
            left = {one: stamp for one, stamp in wanted.items() if one not in found}
            try:
                self._list_offsets_once(left, isolation, found)
            except (ConnectionLost, BrokerError):
                self.refresh({name for name, _ in wanted})
                raise

        self.retrying("listing offsets", attempt)
        return found

    def _list_offsets_once(
        self, wanted: Mapping[TopicPartition, int], isolation: int, found: dict[TopicPartition, int]
    ) -> None:
        by_node: dict[int, dict[str, list[tuple[int, int]]]] = {}
        for (name, partition), stamp in wanted.items():
            by_node.setdefault(self.leader(name, partition), {}).setdefault(name, []).append((partition, stamp))
        refused: BrokerError | None = None
        for node, topics in by_node.items():
            reply = self.to_node(node).call(LIST_OFFSETS, 5, _list_offsets_body(topics, isolation))
            reply.int32()
            for _ in range(reply.count()):
                name = reply.string()
                for _ in range(reply.count()):
                    partition, code, _stamp, offset = reply.int32(), reply.int16(), reply.int64(), reply.int64()
                    reply.int32()
                    if code:
                        refused = partition_error(code, f"offsets of {name}-{partition}")
                    else:
                        found[name, partition] = offset
        if refused is not None:
            raise refused

    # Coordinators and topics

    def coordinator(self, kind: int, key: str) -> Connection:
        """Return the connection to the coordinator of a group or a transactional id."""
        return self.to_coordinator(kind, key, "calls")

    def to_coordinator(self, kind: int, key: str, lane: str) -> Connection:
        self.find_coordinators(kind, [key])
        return self.to_node(self._coordinators[kind, key], lane)

    def forget_coordinators(self) -> None:
        """Forget the known coordinators, after one of them rejected a request or became unreachable."""
        self._coordinators.clear()

    def find_coordinators(self, kind: int, keys: Iterable[str]) -> None:
        """Look up the coordinators of many keys with one request."""
        unknown = [key for key in keys if (kind, key) not in self._coordinators]
        if not unknown:
            return
        body = Writer(compact=True).int8(kind)
        reply = self.any().call(FIND_COORDINATOR, 4, body.array(unknown, body.string).tags())
        reply.int32()
        for _ in range(reply.count()):
            key, node, host, port = reply.string(), reply.int32(), reply.string(), reply.int32()
            code, detail = reply.int16(), reply.nullable_string()
            reply.tags()
            if code:
                raise BrokerError(code, f"finding the coordinator of {key!r}", detail)
            self._addresses[node] = (host, port)
            self._coordinators[kind, key] = node

    def create_topic(self, name: str, *, partitions: int, replicas: int, configs: Mapping[str, str]) -> int:
        """Create a topic and return the error code; -1 replicas means the cluster's default.

        The code may be TOPIC_ALREADY_EXISTS because an attempt without a response created the topic.
        """
        body = Writer().int32(1).string(name).int32(partitions).int16(replicas).int32(0)
        body.array(configs.items(), lambda pair: body.string(pair[0]).string(pair[1]))
        body.int32(30_000).boolean(False)

        def attempt() -> int:
            reply = self.any().call(CREATE_TOPICS, 4, body)
            reply.int32()
            reply.count()
            reply.string()
            code = reply.int16()
            if code in PASSING:
                raise BrokerError(code, f"creating topic {name!r}")
            return code

        return self.retrying(f"creating topic {name!r}", attempt)


def _list_offsets_body(topics: Mapping[str, list[tuple[int, int]]], isolation: int) -> Writer:
    body = Writer().int32(-1).int8(isolation)

    def topic(pair: tuple[str, list[tuple[int, int]]]) -> None:
        body.string(pair[0])
        body.array(pair[1], lambda one: body.int32(one[0]).int32(-1).int64(one[1]))

    return body.array(topics.items(), topic)


def parse_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Parse `host:port,host:port` into pairs; IPv6 hosts are in brackets."""
    found = []
    for part in filter(None, (one.strip() for one in bootstrap.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or not port.isdigit():
            raise PenstockClientError(f"kafka.bootstrap.servers: {part!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise PenstockClientError("kafka.bootstrap.servers is empty: set it to at least one broker, as host:port")
    return found


def unknown_topic(name: str, bootstrap: str) -> PenstockClientError:
    return PenstockClientError(
        f"topic {name!r} does not exist at {bootstrap}: create it with 'penstock topic create {name}', "
        "or check the name in subscribe, assign or topic"
    )
