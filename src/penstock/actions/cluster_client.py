"""A cluster asked over Kafka's admin protocol: one connection per broker, for as long as one command runs.

Speaks with the broker's own codecs in the newest version that both sides know, so it reads any
cluster that speaks the protocol. Blocking: it serves commands and scripts, never the broker.
Refuses: ClusterError when nobody answers, or when an answer carries an error.
"""

import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.metadata.v13.request import MetadataRequest
from kio.static.primitive import i8

from penstock.model.errors import PenstockError
from penstock.wire.api import APIS, ApiKey
from penstock.wire.codec import read_response, write_request
from penstock.wire.frame import parse_response_header, request_head

CLIENT_ID: Final = "penstock-admin"
TIMEOUT_S: Final = 15.0
ANSWER_SIZE_MAX: Final = 512 * 1024 * 1024
DEFAULT_PORT: Final = 9092
# An answer of ours is read in it even by brokers that know no newer one.
_API_VERSIONS_VERSION: Final = 0


PLAIN: Final[Mapping[str, str]] = MappingProxyType({})
"""Nothing is secured."""


class ClusterError(PenstockError):
    """Nobody answers, or the answer is an error; says what to do."""


class Connection:
    """One broker; answers come in the order of the questions."""

    def __init__(self, host: str, port: int, settings: Mapping[str, str] = PLAIN) -> None:
        self._where = f"{host}:{port}"
        try:
            self._socket = dial_secured(host, port, settings, timeout_s=TIMEOUT_S) if settings else _plain(host, port)
        except OSError as error:
            raise ClusterError(
                f"{self._where} cannot be reached ({error.strerror or error}): 'penstock doctor' looks for the reason."
            ) from None
        self._count = 0
        known = self._exchange(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, ApiVersionsRequest())
        self._newest = {each.api_key: int(each.max_version) for each in known.api_keys}

    def ask(self, api_key: int, request: Any, *, newest: int | None = None) -> Any:
        """The answer to an entity of the latest version; `newest` asks for no newer version than that."""
        api = APIS[api_key]
        theirs = self._newest.get(api_key)
        if theirs is None or theirs < api.min_version:
            raise ClusterError(f"{self._where} does not serve {api.name}: that cluster is too old for this.")
        return self._exchange(api_key, min(api.max_version, theirs, newest or api.max_version), request)

    def _exchange(self, api_key: int, version: int, request: Any) -> Any:
        body = write_request(api_key, version, request)
        self._count += 1
        try:
            self._socket.sendall(request_head(api_key, version, self._count, CLIENT_ID, len(body)) + body)
            (size,) = struct.unpack(">i", self._read(4))
            if not 0 < size <= ANSWER_SIZE_MAX:
                raise EOFError
            frame = memoryview(self._read(size))
        except (OSError, EOFError):
            raise ClusterError(f"{self._where} stopped answering: 'penstock doctor' looks for the reason.") from None
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


class Cluster:
    """All brokers of a cluster, and what several tables need to know of it."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str] = PLAIN) -> None:
        """`settings` are those of a Kafka client that say how connections are secured: security.protocol ..."""
        self._settings = settings
        self._first = _first_that_answers(bootstrap, settings)
        self._connections: dict[int, Connection] = {}

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._first, *self._connections.values()):
            connection.close()

    @cached_property
    def metadata(self) -> Any:
        """Brokers, controller and all topics with their partitions."""
        request = MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        return self._first.ask(ApiKey.METADATA, request)

    @cached_property
    def topics(self) -> list[Any]:
        return sorted(self.metadata.topics, key=lambda topic: topic.name)

    @property
    def brokers(self) -> list[int]:
        return sorted(broker.node_id for broker in self.metadata.brokers)

    def ask_any(self, api_key: int, request: Any) -> Any:
        return self._first.ask(api_key, request)

    def ask(self, node_id: int, api_key: int, request: Any, *, newest: int | None = None) -> Any:
        connection = self._connections.get(node_id)
        if connection is None:
            broker = next(each for each in self.metadata.brokers if each.node_id == node_id)
            connection = self._connections[node_id] = Connection(broker.host, broker.port, self._settings)
        return connection.ask(api_key, request, newest=newest)

    def coordinators(self, keys: Sequence[str], key_type: int) -> dict[int, list[str]]:
        """Who keeps each group (0) or transactional id (1)."""
        found: dict[int, list[str]] = {}
        if keys:
            request = FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=tuple(keys))
            answer = self.ask_any(ApiKey.FIND_COORDINATOR, request)
            for each in answer.coordinators:
                check(each.error_code, about=each.key)
                found.setdefault(int(each.node_id), []).append(each.key)
        return found

    def by_leader(self, topics: Iterable[Any]) -> dict[int, list[tuple[str, list[int]]]]:
        """The partitions that have a leader, as each leader is asked about them."""
        found: dict[int, dict[str, list[int]]] = {}
        for topic in topics:
            for partition in topic.partitions:
                if partition.leader_id >= 0:
                    by_name = found.setdefault(int(partition.leader_id), {})
                    by_name.setdefault(topic.name, []).append(int(partition.partition_index))
        return {leader: sorted(by_name.items()) for leader, by_name in sorted(found.items())}


def check(error: Any, *, about: str) -> None:
    if error.value:
        raise ClusterError(f"{about}: {error.name.replace('_', ' ')}.")


def split_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT, [V6]:PORT or a bare host."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text.strip(), str(DEFAULT_PORT)
    host = host.strip("[]")
    if not host or not port.isdigit():
        raise ClusterError(f"'{text}' is no address: write HOST:PORT, for example localhost:{DEFAULT_PORT}.")
    return host, int(port)


def _first_that_answers(bootstrap: str, settings: Mapping[str, str]) -> Connection:
    problem = ClusterError("No address is given: write HOST:PORT.")
    for text in bootstrap.split(","):
        try:
            return Connection(*split_address(text), settings)
        except ClusterError as error:
            problem = error
    raise problem


def _plain(host: str, port: int) -> socket.socket:
    made = socket.create_connection((host, port), timeout=TIMEOUT_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def dial_secured(host: str, port: int, settings: Mapping[str, str], *, timeout_s: float) -> socket.socket:
    """Connect as a client's settings say; over what is returned the first request can be sent."""
    from penstock_client.errors import PenstockClientError
    from penstock_client.protocol.connection import Connection as Secured

    try:
        return Secured(host, port, settings, timeout_s=timeout_s).detach()
    except PenstockClientError as problem:
        raise ClusterError(f"{host}:{port} does not let this client in: {problem}") from None
