"""The conversation of one scenario with one broker, recorded step by step."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kio.schema.index import api_key_map

from tests.differential.entities import framed, read_response, request_frame
from tests.support.eventually import eventually
from tests.support.security import Certificates

CLOSED = "the connection was closed"
SILENT = "no answer"
# Generous, because a busy machine must not change a response.
ANSWER_SECONDS_MAX = 60.0
# For scenarios with a request that Kafka never answers.
SILENCE_SECONDS = 15.0
REQUEST_MS_MAX = 30_000
SETTLE_SECONDS_MAX = 60.0

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A short description of the request, and the response: fields, or one of the two texts above."""

    label: str
    outcome: Any


@dataclass
class Pending:
    """A request on a separate connection whose response may take long."""

    session: Session
    connection: Session
    label: str
    api: str
    version: int

    def answer(self, label: str = "") -> Answer:
        """Wait for the response, record it and return it; {} if there is none."""
        frame = self.connection.receive()
        outcome = frame if isinstance(frame, str) else read_response(self.api, self.version, frame)
        self.connection.hang_up()
        self.session.note(f"{self.label}{', ' + label if label else ''}", outcome)
        return outcome if isinstance(outcome, dict) else {}


@dataclass
class Session:
    """The broker as seen by a scenario. Names from `name()` are the same for both brokers."""

    scenario: str
    host: str
    port: int
    steps: list[Step] = field(default_factory=list)
    addresses: Callable[[str], str] | None = None
    """Returns the address of a listener."""
    certificates: Certificates | None = None
    """The authority that both brokers trust."""
    created: set[str] = field(default_factory=set)
    """The topics that `topic()` has created."""
    answer_seconds_max: float = ANSWER_SECONDS_MAX
    _connection: socket.socket | None = None

    def call(self, api: str, version: int, /, label: str = "", **values: Any) -> Answer:
        """Send a request, record the response and return it; {} if there is none."""
        outcome = self.ask(api, version, **values)
        self.note(f"{api} v{version}{' ' + label if label else ''}", outcome)
        return outcome if isinstance(outcome, dict) else {}

    def ask(self, api: str, version: int, /, **values: Any) -> Answer | str:
        """Send a request without recording the response."""
        frame = self.exchange(request_frame(api, version, values))
        return frame if isinstance(frame, str) else read_response(api, version, frame)

    def on(self, listener: str) -> Session:
        """Return a session with another listener of the same broker. Its steps are recorded with this session's."""
        assert self.addresses is not None, "the broker has one listener only"
        host, _, port = self.addresses(listener).rpartition(":")
        return Session(self.scenario, host, int(port), self.steps, self.addresses, self.certificates)

    def begin(self, api: str, version: int, /, label: str = "", **values: Any) -> Pending:
        """Send a request whose response waits for others, such as JoinGroup."""
        connection = Session(self.scenario, self.host, self.port)
        connection.send(request_frame(api, version, values))
        return Pending(self, connection, f"{api} v{version}{' ' + label if label else ''}", api, version)

    def raw(self, label: str, sent: bytes, *, seconds_max: float | None = None) -> bytes | str:
        """Send raw bytes and record what happened to the connection."""
        got = self.exchange(sent, seconds_max=seconds_max)
        self.note(label, got if isinstance(got, str) else {"answered_bytes": got.hex()})
        return got

    def body(self, label: str, api_key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes | str:
        """Send a request with a valid header and the given body."""
        header = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
        header += b"\0\0\0\x07" + b"\xff\xff" + (b"\0" if flexible else b"")
        got = self.exchange(framed(header + body))
        self.note(label, got if isinstance(got, str) else read_response(api_key_map[api_key], version, got))
        return got

    def note(self, label: str, outcome: Any) -> None:
        self.steps.append(Step(label, outcome))

    def until(
        self, holds: Callable[[Answer], bool], api: str, version: int, /, label: str = "", **values: Any
    ) -> Answer:
        """Repeat a request until the response is as expected, and record only the last one."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while True:
            answer = self.ask(api, version, **values)
            if isinstance(answer, dict) and holds(answer):
                self.note(f"{api} v{version}{' ' + label if label else ''}", answer)
                return answer
            assert time.monotonic() < deadline, f"{api} {label}: the response stays {answer}"
            time.sleep(0.01)

    def name(self, text: str) -> str:
        return f"{self.scenario.replace(' ', '-')}.{text}"

    def topic(self, text: str = "t", *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic and wait until its logs can be written."""
        name = self.name(text)
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        made = self.ask("create_topics", 7, topics=[wanted], timeout=REQUEST_MS_MAX)
        assert isinstance(made, dict) and made["topics"][0]["error_code"] == "0 none", made
        self.settle(name, partitions)
        self.created.add(name)
        return name

    def settle(self, topic: str, partitions: int = 1) -> None:
        """Wait until every partition of a topic responds."""
        asked = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]

        def responds() -> bool:
            answer = self.ask("list_offsets", 7, replica_id=-1, topics=[{"name": topic, "partitions": asked}])
            if not isinstance(answer, dict):
                return False
            return all(one["error_code"] == "0 none" for one in answer["topics"][0]["partitions"])

        eventually(responds, what=f"a response of every partition of {topic} on port {self.port}")

    def topic_id(self, topic: str) -> str:
        answer = self.ask("metadata", 12, topics=[{"name": topic}])
        assert isinstance(answer, dict)
        return str(answer["topics"][0]["topic_id"])

    def exchange(self, sent: bytes, *, seconds_max: float | None = None) -> bytes | str:
        """Send bytes and return the response frame, or what happened instead."""
        try:
            self.send(sent)
        except ConnectionError:
            self.hang_up()
            return CLOSED
        return self.receive(seconds_max=seconds_max)

    def send(self, sent: bytes) -> None:
        if self._connection is None:
            self._connection = socket.create_connection((self.host, self.port), timeout=ANSWER_SECONDS_MAX)
        self._connection.settimeout(ANSWER_SECONDS_MAX)
        self._connection.sendall(sent)

    def receive(self, *, seconds_max: float | None = None) -> bytes | str:
        """Return the next frame, or what happened instead."""
        assert self._connection is not None, "nothing was sent"
        self._connection.settimeout(self.answer_seconds_max if seconds_max is None else seconds_max)
        try:
            return self._exactly(int.from_bytes(self._exactly(4), "big", signed=True))
        except TimeoutError:
            self.hang_up()
            return SILENT
        except (ConnectionError, EOFError):
            self.hang_up()
            return CLOSED

    def hang_up(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exactly(self, size: int) -> bytes:
        assert self._connection is not None
        data = bytearray()
        while len(data) < size:
            more = self._connection.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return bytes(data)
