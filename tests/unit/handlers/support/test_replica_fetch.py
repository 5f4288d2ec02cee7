"""Fetch by followers through its handler, on real replicas."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from penstock.handlers.support import replica_fetch
from penstock.handlers.support.replica_fetch import ANSWERED_MAX, READ_MAX, UNFIT_MAX, ReplicaFetch
from penstock.model.ids import NodeId
from penstock.replication.follower_sessions import FollowerSession, SessionEntry, Wakeups
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header
from penstock.wire.hot.fetch import FetchPartition, FetchRequest, PartitionAnswer
from tests.unit.handlers.hot import batch, fetch, fetched, leader, produce, replicated, reply_of
from tests.unit.replication.replicated_partition import ReplicatedPartition

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER, STORAGE_ERROR = 1, 3, 6, 56
FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_TOPIC_ID = 74, 75, 100


def as_follower(world: ReplicatedPartition, *rows: dict[str, Any], follower: int = 2, **fields: Any) -> Any:
    """Fetch from the leader as a follower that begins a new session; time and network stand still."""
    epoch = world.image.brokers[NodeId(follower)].epoch if NodeId(follower) in world.image.brokers else 1
    wanted = tuple({"current_leader_epoch": 0, "last_fetched_epoch": -1, **row} for row in rows or ({},))
    return fetch(leader(world), *wanted, version=12, replica_id=follower, replica_epoch=epoch, max_wait=500, **fields)


async def test_a_follower_reads_up_to_the_end_of_the_log() -> None:
    async with replicated() as world:
        world.network.cut = {(1, 2), (1, 3)}
        produce(leader(world), (0, batch()))
        row = fetched(as_follower(world), 12)
        assert (int(row.error_code), row.high_watermark, bool(row.records)) == (0, 0, True)


async def test_the_fetch_offset_of_a_follower_counts_as_what_it_holds() -> None:
    async with replicated() as world:
        world.network.cut = {(1, 2), (1, 3)}
        produce(leader(world), (0, batch()))
        for follower in (2, 3):
            as_follower(world, {"fetch_offset": 1, "last_fetched_epoch": 0}, follower=follower)
        assert leader(world).partition.high_watermark == 1


async def test_a_node_that_is_not_a_replica_does_not_move_the_high_watermark() -> None:
    async with replicated() as world:
        world.network.cut = {(1, 2), (1, 3)}
        produce(leader(world), (0, batch()))
        row = fetched(as_follower(world, {"fetch_offset": 1, "last_fetched_epoch": 0}, follower=9), 12)
        assert int(row.error_code) == NOT_LEADER
        assert leader(world).partition.high_watermark == 0


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"partition": 9}, UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 1}, UNKNOWN_EPOCH),
        ({"fetch_offset": 5}, OFFSET_OUT_OF_RANGE),
    ],
)
async def test_an_invalid_request_is_refused_and_moves_no_high_watermark(row: dict[str, int], error: int) -> None:
    async with replicated() as world:
        world.network.cut = {(1, 2), (1, 3)}
        produce(leader(world), (0, batch()))
        found = fetched(as_follower(world, row), 12)
        assert int(found.error_code) == error
        assert leader(world).partition.high_watermark == 0
        if error == OFFSET_OUT_OF_RANGE:
            assert found.log_start_offset == 0, "the follower learns where to begin"


async def test_an_unknown_topic_id_is_refused() -> None:
    async with replicated() as world:
        reply = fetch(
            leader(world), {"current_leader_epoch": 0}, version=13, replica_id=2, topic_id=UUID(int=5), max_wait=500
        )
        assert int(fetched(reply, 13).error_code) == UNKNOWN_TOPIC_ID


async def test_a_follower_of_an_older_epoch_gets_the_current_one() -> None:
    async with replicated() as world:
        world.elect(2)
        world.elect(1)
        await world.settle()
        row = fetched(as_follower(world), 12)
        assert (int(row.error_code), row.current_leader.leader_id, row.current_leader.leader_epoch) == (
            FENCED_EPOCH,
            1,
            2,
        )


async def test_a_diverging_follower_gets_the_end_of_its_last_common_epoch() -> None:
    async with replicated() as world:
        produce(leader(world), (0, batch()))
        await world.settle(seconds=0.5)
        world.elect(2)
        world.elect(1)
        await world.settle(seconds=0.5)
        world.network.cut = {(1, 2), (1, 3)}
        produce(leader(world), (0, batch()))
        row = fetched(as_follower(world, {"fetch_offset": 4, "current_leader_epoch": 2, "last_fetched_epoch": 0}), 12)
        assert (int(row.error_code), row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (0, 0, 1)


@pytest.mark.parametrize(("failure", "error"), [(OSError(5, "bad sector"), STORAGE_ERROR), (RuntimeError("bug"), -1)])
async def test_a_log_that_cannot_be_read_is_an_error_of_its_partition(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, error: int
) -> None:
    async with replicated() as world:
        world.network.cut = {(1, 2), (1, 3)}
        produce(leader(world), (0, batch()))

        def fail(*_: Any, **__: Any) -> None:
            raise failure

        monkeypatch.setattr(type(leader(world).partition), "read_for_replica", fail)
        assert int(fetched(as_follower(world), 12).error_code) == error


async def test_a_session_waits_for_news_and_the_next_request_ends_the_wait() -> None:
    async with replicated() as world:
        world.network.cut = {(1, 2), (1, 3)}
        first = reply_of("fetch", 12, as_follower(world, session_epoch=0))
        assert first.session_id > 0
        session = {"session_id": first.session_id, "topics": []}
        waiting = as_follower(world, session_epoch=1, **session)
        assert isinstance(waiting, ReplicaFetch)
        waiting.on_ready = lambda: None
        follow = as_follower(world, session_epoch=2, **session)
        assert waiting.parts is not None
        follow.on_ready = lambda: None
        produce(leader(world), (0, batch()))
        (row,) = reply_of("fetch", 12, follow).responses[0].partitions
        assert bool(row.records)


async def test_an_unknown_session_refuses_the_whole_request() -> None:
    async with replicated() as world:
        reply = reply_of("fetch", 12, as_follower(world, session_id=99, session_epoch=1, topics=[]))
        assert (int(reply.error_code), reply.responses) == (70, ())


def test_a_full_response_tries_only_some_of_the_partitions_whose_records_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def read(self: ReplicaFetch, entry: Mock, room: int, *, at_least_one: bool) -> Mock | None:
        tried.append(entry)
        return Mock(size=100, error_code=0, diverging=None) if at_least_one else None

    monkeypatch.setattr(ReplicaFetch, "_read", read)
    monkeypatch.setattr(replica_fetch, "write_response", lambda *_, **__: b"response")
    entries = [Mock(requested=Mock(offset=0)) for _ in range(3 * UNFIT_MAX)]
    for entry in entries:
        entry.partition.log.offsets.end = 7
    session = Mock(ready=dict.fromkeys(entries), urgent=False, moved={}, by_id=True)
    request = Mock(max_bytes=100, min_bytes=1, max_wait_ms=500)
    assert ReplicaFetch(Mock(), Mock(), request, session).attempt() is not None
    assert tried == entries[: 1 + UNFIT_MAX]
    assert list(session.ready) == entries[1:], "the next request begins with those that did not fit"


def test_the_high_watermarks_of_many_partitions_follow_without_a_wait_and_beside_busy_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unused: Any = None
    session = FollowerSession(1, Wakeups(unused), node_id=NodeId(2), client_id="c", broker_epoch=1, by_id=True, now=0.0)
    log = SimpleNamespace(offsets=SimpleNamespace(start=0))
    partition: Any = SimpleNamespace(
        leadership=object(), log=log, marks=SimpleNamespace(high_watermark=7), last_stable_offset=7
    )
    entries = [SessionEntry(session, FetchPartition(bytes(16), index, 0, 7, 0, 0, 1)) for index in range(2_000)]
    for entry in entries:
        entry.partition = partition
    metrics = SimpleNamespace(replication_bytes_out=SimpleNamespace(add=lambda size: None))
    handler: Any = SimpleNamespace(context=SimpleNamespace(metrics=metrics))
    request, header = FetchRequest(), Header(ApiKey.FETCH, 17, 1, "c", 0)
    request.max_wait_ms, request.min_bytes, request.max_bytes = 500, 1, 1_000_000
    monkeypatch.setattr(
        ReplicaFetch, "_read", lambda _, entry, *__, **___: PartitionAnswer(bytes(16), entry.requested.index, 0, 7)
    )
    session.moved = dict.fromkeys(entries[:1_200])
    sent = []
    fetch = ReplicaFetch(handler, header, request, session)
    parts = fetch.attempt(final=True)
    while parts is not None:
        sent.append(sum(entry.sent_mark == 7 for entry in entries))
        parts = fetch.attempt()
    assert sent == list(range(ANSWERED_MAX, 1_201, ANSWERED_MAX)), "then it waits"
    session.moved = dict.fromkeys(entries[1_200:])
    session.ready = dict.fromkeys(entries[:1_200])
    assert fetch.attempt() is not None
    assert sum(entry.sent_mark == 7 for entry in entries) == 1_200 + ANSWERED_MAX - READ_MAX
