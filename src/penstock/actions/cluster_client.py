"""A cluster over Kafka's protocol: one blocking connection per broker, with the broker's own codecs.

For requests that librdkafka has no function for. Each request is sent in the newest version that both sides support,
so it works with any Kafka cluster. Raises ActionError if no broker answers or if a response carries an error.
"""

import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, cast

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.static.primitive import i8

from penstock.actions.connection import (
    REQUEST_TIMEOUT_S,
    Connection,
    check_reachable,
    connection_failed,
    open_secured_socket,
)
from penstock.actions.errors import TRANSPORT, ActionError
from penstock.wire.api import APIS, ApiKey
from penstock.wire.codec import read_response, write_request
from penstock.wire.frame import parse_response_header, request_head

CLIENT_ID: Final = "penstock-admin"
RESPONSE_SIZE_MAX: Final = 512 * 1024 * 1024
# Brokers of every age answer this version.
_API_VERSIONS_VERSION: Final = 0


class BrokerConnection:
    """A connection to one broker. Responses arrive in the order of the requests."""

    def __init__(self, host: str, port: int, security: Mapping[str, str]) -> None:
        self._address = f"{host}:{port}"
        try:
            self._socket: socket.socket = open_secured_socket(host, port, security, timeout_s=REQUEST_TIMEOUT_S)
        except OSError as error:
            raise connection_failed(host, port, error) from None
        self._count = 0
        try:
            known = self._exchange(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, ApiVersionsRequest())
        except BaseException:
            self.close()
            raise
        self._newest = {each.api_key: int(each.max_version) for each in known.api_keys}

    def send(self, api_key: int, request: Any, *, newest: int | None = None) -> Any:
        """Send a request of the latest schema version; `newest` limits the version on the wire."""
        api = APIS[api_key]
        theirs = self._newest.get(api_key)
        if theirs is None or theirs < api.min_version:
            raise ActionError(f"{self._address} does not support {api.name}. Upgrade that broker.")
        return self._exchange(api_key, min(api.max_version, theirs, newest or api.max_version), request)

    def _exchange(self, api_key: int, version: int, request: Any) -> Any:
        body = write_request(api_key, version, request)
        self._count += 1
        try:
            self._socket.sendall(request_head(api_key, version, self._count, CLIENT_ID, len(body)) + body)
            (size,) = struct.unpack(">i", self._read(4))
            if not 0 < size <= RESPONSE_SIZE_MAX:
                raise EOFError
            frame = memoryview(self._read(size))
        except (OSError, EOFError):
            raise ActionError(f"{self._address} closed the connection without a response.", code=TRANSPORT) from None
        _, position = parse_response_header(api_key, version, frame)
        return read_response(api_key, version, frame[position:])

    def _read(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise EOFError
            view = view[count:]
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


class ClusterClient:
    """All brokers of a cluster, and its metadata as of the first use: of all topics, or of the given ones."""

    def __init__(self, connection: Connection, topics: Sequence[str] | None = None) -> None:
        self._security = connection.security
        self._names = topics
        self._first = _connect_to_any(connection)
        self._connections: dict[int, BrokerConnection] = {}

    def __enter__(self) -> "ClusterClient":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._first, *self._connections.values()):
            connection.close()

    @cached_property
    def metadata(self) -> Any:
        """The Metadata response: brokers, controller, and topics with their partitions."""
        topics: Any = None
        if self._names is not None:
            topics = tuple(MetadataRequestTopic(topic_id=None, name=cast(Any, name)) for name in self._names)
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        return self._first.send(ApiKey.METADATA, request)

    @cached_property
    def topics(self) -> list[Any]:
        found = (topic for topic in self.metadata.topics if not (self._names and topic.error_code.value))
        return sorted(found, key=lambda topic: topic.name)

    @property
    def brokers(self) -> list[int]:
        return sorted(broker.node_id for broker in self.metadata.brokers)

    def send_any(self, api_key: int, request: Any) -> Any:
        return self._first.send(api_key, request)

    def send(self, node_id: int, api_key: int, request: Any, *, newest: int | None = None) -> Any:
        connection = self._connections.get(node_id)
        if connection is None:
            broker = next(each for each in self.metadata.brokers if each.node_id == node_id)
            connection = self._connections[node_id] = BrokerConnection(broker.host, broker.port, self._security)
        return connection.send(api_key, request, newest=newest)

    def coordinators(self, keys: Sequence[str], key_type: int) -> dict[int, list[str]]:
        """Return the keys by coordinator. Key type 0 is a group, 1 a transactional id."""
        found: dict[int, list[str]] = {}
        if keys:
            request = FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=tuple(keys))
            for each in self.send_any(ApiKey.FIND_COORDINATOR, request).coordinators:
                raise_for_error(each.error_code, about=each.key)
                found.setdefault(int(each.node_id), []).append(each.key)
        return found

    def by_leader(self, topics: Iterable[Any]) -> dict[int, list[tuple[str, list[int]]]]:
        """Return the partitions by leader, without those that have none."""
        found: dict[int, dict[str, list[int]]] = {}
        for topic in topics:
            for partition in topic.partitions:
                if partition.leader_id >= 0:
                    by_name = found.setdefault(int(partition.leader_id), {})
                    by_name.setdefault(topic.name, []).append(int(partition.partition_index))
        return {leader: sorted(by_name.items()) for leader, by_name in sorted(found.items())}


def open_cluster(connection: Connection, topics: Sequence[str] | None = None) -> ClusterClient:
    """Connect to a cluster; an unreachable address fails faster than a request would."""
    check_reachable(connection)
    return ClusterClient(connection, topics)


def raise_for_error(error: Any, *, about: str) -> None:
    """Raise if a response carries an error code."""
    if error.value:
        raise ActionError(f"{about}: {error.name.replace('_', ' ')}.", code=error.name.upper(), about=about)


def _connect_to_any(connection: Connection) -> BrokerConnection:
    problem: ActionError | None = None
    for host, port in connection.addresses:
        try:
            return BrokerConnection(host, port, connection.security)
        except ActionError as error:
            problem = error
    assert problem is not None, "there is at least one address"
    raise problem
