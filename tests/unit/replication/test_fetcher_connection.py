"""The connection and the session of a fetcher: connecting, malformed and late responses, paused partitions."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.config.settings import BrokerSettings
from penstock.model.errors import StorageError
from penstock.model.ids import NodeId
from penstock.replication import fetcher as module
from penstock.replication.fetcher import CONNECT_PAUSE_S_MAX, THROTTLED_PAUSE_S, Fetcher
from penstock.wire.frame import MalformedRequest
from tests.support.stepped_clock import SteppedClock
from tests.unit.replication.test_fetcher import NO_ERROR, TOPIC, FollowedPartition

UNKNOWN_LEADER_EPOCH = 76
SESSION_NOT_FOUND = 70


class Throttle:
    passed = 0
    is_over = False

    def holds_back(self, partition: object, node_id: object, *, is_member: bool) -> bool:
        return self.is_over

    def watches(self, partition: object, node_id: object, *, is_member: bool) -> bool:
        return False


class Leader:
    """The far end of a fetcher's connections, and the node around the fetcher."""

    node_id = NodeId(1)

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = SteppedClock()
        self.follower_throttle: Any = Throttle()
        self.network: Any = SimpleNamespace(connect=self._dialed)
        self.dialed: list[Callable[[Any], Any]] = []
        self.address: tuple[str, int] | None = ("leader", 9092)
        self.epoch = 5
        self.requests: list[tuple[int, list[int], list[int]]] = []
        """Each request: its session epoch, the partitions that it names, and those that it removes."""
        self.found_damaged: list[object] = []
        self.closed = 0
        self._link: Any = None
        self._answer: Any = None
        self._settings = BrokerSettings({"replica.fetch.backoff.ms": "1000"})
        monkeypatch.setattr(module, "write_request", self._written)
        monkeypatch.setattr(module, "read_response", self._read)
        self.fetcher = Fetcher(NodeId(2), 0, cast(Any, self))

    is_opening_many = False

    def settings(self) -> BrokerSettings:
        return self._settings

    def broker_epoch(self) -> int:
        return self.epoch

    def address_of(self, node_id: NodeId) -> tuple[str, int] | None:
        return self.address

    def fetched(self, partition: object, leader_end: int) -> None: ...

    def damaged(self, partition: object) -> None:
        self.found_damaged.append(partition)

    def _dialed(self, host: str, port: int, opened: Callable[[Any], Any]) -> None:
        self.dialed.append(opened)

    def _written(self, fetch: Any, request_id: int, client_id: bytes, named: Any, removed: Any) -> bytes:
        self.requests.append((fetch.session_epoch, [row[1] for row in named], [key[1] for key in removed]))
        return b""

    def _read(self, frame: memoryview) -> Any:
        if self._answer is None:
            raise MalformedRequest("cut short")
        return self._answer

    async def accept(self) -> None:
        connection = SimpleNamespace(send_now=lambda parts: None, close=self._close)
        self._link = self.dialed.pop()(connection)
        await self.clock.advance(0)

    def _close(self) -> None:
        self.closed += 1
        self._link.lost(None)

    def answer(self, *rows: Any, request_id: int | None = None, error: int = NO_ERROR) -> None:
        """Answer the oldest request, or send a response with another request id."""
        request_id = self.fetcher._in_flight[0] if request_id is None else request_id
        self._answer = request_id, SimpleNamespace(error_code=error, session_id=3, rows=rows)
        self._link.frame(memoryview(b""))

    def answer_malformed(self) -> None:
        self._answer = None
        self._link.frame(memoryview(b""))


def row(index: int, *, error: int = NO_ERROR, records: bytes | None = None) -> Any:
    return (TOPIC.bytes, index, error, 610, 0, None, None if records is None else memoryview(records))


def partition(index: int = 0) -> Any:
    followed: Any = FollowedPartition()
    followed.index = index
    return followed


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    return Leader(monkeypatch)


async def test_a_leader_without_a_known_address_is_looked_up_again(leader: Leader) -> None:
    leader.address = None
    leader.fetcher.follow(partition())
    assert not leader.dialed
    leader.address = ("leader", 9092)
    await leader.clock.advance(CONNECT_PAUSE_S_MAX)
    assert len(leader.dialed) == 1


async def test_nothing_is_fetched_before_the_broker_is_registered(leader: Leader) -> None:
    leader.epoch = -1
    leader.fetcher.follow(partition())
    await leader.accept()
    await leader.clock.advance(1)
    assert leader.requests == []
    leader.epoch = 7
    await leader.clock.advance(1)
    assert [named for _, named, _ in leader.requests] == [[0]]


@pytest.mark.parametrize("kind", ["malformed", "for another request", "without a request"])
async def test_a_response_that_cannot_be_matched_closes_the_connection_and_changes_nothing(
    leader: Leader, kind: str
) -> None:
    followed = partition()
    leader.fetcher.follow(followed)
    await leader.accept()
    if kind == "malformed":
        leader.answer_malformed()
    elif kind == "for another request":
        leader.answer(row(0, records=b"ab"), request_id=99)
    else:
        leader.fetcher._in_flight.clear()
        leader.answer(row(0, records=b"ab"), request_id=0)
    assert leader.closed == 1
    assert followed.done == []
    await leader.clock.advance(1)
    await leader.accept()
    assert leader.requests[-1] == (0, [0], []), "a new session names everything"


async def test_a_rejected_session_is_begun_again_on_a_new_connection(leader: Leader) -> None:
    leader.fetcher.follow(partition())
    await leader.accept()
    leader.answer()
    leader.answer(error=SESSION_NOT_FOUND)
    assert leader.closed == 1
    await leader.clock.advance(1)
    await leader.accept()
    assert leader.requests[-1] == (0, [0], [])


async def test_a_loss_that_is_reported_twice_does_not_end_the_next_connection(leader: Leader) -> None:
    leader.fetcher.follow(partition())
    await leader.accept()
    first = leader._link
    first.lost(None)
    await leader.clock.advance(1)
    await leader.accept()
    first.lost(None)
    assert leader.fetcher._connection is not None
    leader.answer()
    assert len(leader.requests) == 3


async def test_a_connection_that_is_opened_after_the_end_is_not_used(leader: Leader) -> None:
    leader.fetcher.follow(partition())
    leader.fetcher.close()
    assert leader.dialed.pop()(SimpleNamespace()) is None
    await leader.clock.advance(10)
    assert leader.dialed == [] and leader.requests == []


async def test_a_new_session_leaves_out_paused_partitions_until_they_resume(leader: Leader) -> None:
    for index in (0, 1):
        leader.fetcher.follow(partition(index))
    await leader.accept()
    leader.answer(row(0, error=UNKNOWN_LEADER_EPOCH))
    assert leader.requests[-1] == (1, [], [0]), "the partition with an error leaves the session"
    leader._close()
    await leader.clock.advance(0.5)
    await leader.accept()
    assert leader.requests[-1] == (0, [1], [])
    leader.answer()
    await leader.clock.advance(1)
    assert [0] in [named for _, named, _ in leader.requests[-2:]]


async def test_no_session_is_begun_while_every_partition_is_paused(leader: Leader) -> None:
    leader.follower_throttle.is_over = True
    leader.fetcher.follow(partition())
    await leader.accept()
    await leader.clock.advance(3 * THROTTLED_PAUSE_S)
    assert leader.requests == []
    leader.follower_throttle.is_over = False
    await leader.clock.advance(THROTTLED_PAUSE_S)
    assert leader.requests == [(0, [0], [])]


async def test_a_throttled_partition_leaves_the_session_and_returns(leader: Leader) -> None:
    leader.fetcher.follow(partition())
    await leader.accept()
    leader.follower_throttle.is_over = True
    leader.answer(row(0, records=b"ab"))
    assert leader.requests[-1] == (1, [], [0])
    leader.follower_throttle.is_over = False
    leader.answer()
    await leader.clock.advance(THROTTLED_PAUSE_S)
    assert leader.requests[-1][1] == [0]


async def test_a_damaged_log_is_reported_and_fetched_again_after_a_pause(leader: Leader) -> None:
    followed = partition()
    followed.log.directory = SimpleNamespace(is_read_only=False)

    def fail(records: memoryview, *, now_ms: int, leader_mark: int) -> None:
        followed.log.damage = "rot"
        raise StorageError("rot")

    followed.append_fetched = fail
    leader.fetcher.follow(followed)
    await leader.accept()
    leader.answer(row(0, records=b"ab"))
    assert leader.found_damaged == [followed]
    assert leader.requests[-1] == (1, [], [0])


async def test_a_pause_replaces_the_one_before_it(leader: Leader) -> None:
    followed = partition()
    leader.fetcher.follow(followed)
    await leader.accept()
    entry = leader.fetcher._followed[TOPIC.bytes, 0]
    leader.fetcher._pause(entry, 0.1)
    leader.fetcher._pause(entry, 5.0)
    count = len(leader.requests)
    leader.answer()
    await leader.clock.advance(1)
    assert all(named == [] for _, named, _ in leader.requests[count:])
    leader.answer()
    await leader.clock.advance(5)
    assert leader.requests[-1][1] == [0]
