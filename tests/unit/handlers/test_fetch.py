"""Fetch by consumers through its handler, on real replicas."""

from typing import Any
from uuid import UUID

import pytest

from penstock.handlers import fetch as fetch_module
from penstock.handlers.fetch import PendingFetch
from penstock.metadata.records import RegisterBrokerRecord
from penstock.model.acl import Acl, Operation, Permission
from penstock.model.errors import TopicAuthorizationFailed
from penstock.model.ids import NodeId
from penstock.ports.network import FileSlice
from penstock.quotas.limits import Spans, Table
from penstock.security.principal import user
from penstock.security.rights import Authorizer
from penstock.storage.log_reader import LogReader
from penstock.wire.api import APIS, ApiKey
from tests.unit.handlers.hot import batch, fetch, fetched, leader, produce, replicated, reply_of
from tests.unit.replication.replicated_partition import TOPIC, TOPIC_ID, ReplicatedPartition

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER, STORAGE_ERROR = 1, 3, 6, 56
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_TOPIC_ID = 70, 71, 74, 75, 100
VERSIONS = range(APIS[ApiKey.FETCH].min_version, APIS[ApiKey.FETCH].max_version + 1)
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LONG: dict[str, Any] = {"max_wait": 500}


async def write(world: ReplicatedPartition, count: int = 1, *, size: int = 1) -> None:
    for _ in range(count):
        produce(leader(world), (0, batch(b"v" * size)))
    await world.settle(seconds=0.5)


def count_of(row: Any) -> int:
    """Return how many whole batches the response has for a partition."""
    data, found = bytes(row.records or b""), 0
    while len(data) >= 12 and len(data) >= (size := 12 + int.from_bytes(data[8:12], "big")):
        data, found = data[size:], found + 1
    return found


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_fetches_records(version: int) -> None:
    async with replicated() as world:
        await write(world, 3)
        row = fetched(fetch(leader(world), {"fetch_offset": 1}, version=version), version)
        assert (int(row.error_code), row.high_watermark, row.last_stable_offset) == (0, 3, 3)
        assert count_of(row) == 2
        if version >= 5:
            assert row.log_start_offset == 0


@pytest.mark.parametrize(
    ("row", "fields", "version", "error"),
    [
        ({"partition": 9}, {}, 12, UNKNOWN_TOPIC_OR_PARTITION),
        ({}, {"topic": "nope"}, 12, UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 9}, {}, 13, UNKNOWN_TOPIC_OR_PARTITION),
        ({}, {"topic_id": UUID(int=5)}, 13, UNKNOWN_TOPIC_ID),
        ({"fetch_offset": 4}, {}, 17, OFFSET_OUT_OF_RANGE),
        ({"fetch_offset": -1}, {}, 17, OFFSET_OUT_OF_RANGE),
        ({"fetch_offset": 3}, {"max_wait": 0}, 17, 0),
        ({"current_leader_epoch": 1}, {}, 17, UNKNOWN_EPOCH),
        ({"current_leader_epoch": 0}, {}, 17, 0),
    ],
)
async def test_an_error_is_returned_immediately(
    row: dict[str, int], fields: dict[str, Any], version: int, error: int
) -> None:
    async with replicated() as world:
        await write(world, 3)
        found = fetched(fetch(leader(world), row, version=version, **{**LONG, **fields}), version)
        assert int(found.error_code) == error


async def test_a_consumer_with_an_older_epoch_gets_the_current_leader() -> None:
    async with replicated() as world:
        await write(world)
        world.elect(2)
        world.deliver()
        reply = reply_of("fetch", 17, fetch(leader(world), {"current_leader_epoch": 0}))
        (row,) = reply.responses[0].partitions
        assert (int(row.error_code), row.current_leader.leader_id) == (FENCED_EPOCH, 2)
        assert [each.node_id for each in reply.node_endpoints] == [2]


async def test_a_consumer_of_truncated_records_gets_the_diverging_epoch() -> None:
    async with replicated() as world:
        await write(world, 2)
        world.elect(2)
        world.deliver()
        await world.settle(seconds=0.5)
        other = world.nodes[NodeId(2)]
        produce(other, (0, batch()))
        row = fetched(fetch(other, {"fetch_offset": 3, "last_fetched_epoch": 0}, **LONG))
        assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset, count_of(row)) == (0, 2, 0)


# -- limits (KIP-74) -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_bytes", "partition_max_bytes", "count"),
    [(10_000, 10_000, 4), (1, 10_000, 1), (10_000, 1, 1), (0, 0, 1), (400, 10_000, 2), (10_000, 400, 2)],
)
async def test_the_first_batch_is_complete_and_the_rest_stays_within_the_limits(
    max_bytes: int, partition_max_bytes: int, count: int
) -> None:
    async with replicated() as world:
        await write(world, 4, size=100)
        row = fetched(fetch(leader(world), {"partition_max_bytes": partition_max_bytes}, max_bytes=max_bytes))
        assert count_of(row) == count


async def test_the_brokers_limit_applies_to_every_client() -> None:
    async with replicated(fetch_max_bytes="1024") as world:
        await write(world, 8, size=200)
        row = fetched(fetch(leader(world), {"partition_max_bytes": 100_000}, max_bytes=100_000))
        assert count_of(row) == 3


@pytest.mark.parametrize(("max_bytes", "counts"), [(1, [1, 0]), (400, [2, 0]), (600, [2, 1]), (10_000, [2, 2])])
async def test_partitions_share_the_limit_and_only_the_first_may_exceed_it(max_bytes: int, counts: list[int]) -> None:
    async with replicated() as world:
        await write(world, 2, size=100)
        reply = reply_of("fetch", 17, fetch(leader(world), {}, {}, max_bytes=max_bytes))
        assert [count_of(row) for row in reply.responses[0].partitions] == counts


# -- waiting ---------------------------------------------------------------------------------


async def test_a_fetch_waits_for_bytes_and_is_answered_when_they_are_durable() -> None:
    async with replicated() as world:
        parked = fetch(leader(world), **LONG)
        assert isinstance(parked, PendingFetch)
        answered: list[bool] = []
        parked.on_ready = lambda: answered.append(True)
        await write(world)
        assert answered == [True]
        assert count_of(fetched(parked)) == 1


async def test_a_fetch_that_waits_for_more_bytes_is_answered_after_max_wait_ms() -> None:
    async with replicated() as world:
        parked = fetch(leader(world), min_bytes=5000, **LONG)
        parked.on_ready = lambda: None
        produce(leader(world), (0, batch()))
        await world.settle(seconds=0.3)
        assert parked.parts is None
        await world.settle(seconds=0.4)
        assert count_of(fetched(parked)) == 1


async def test_a_fetch_does_not_wait_for_new_records_if_there_are_more_old_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = LogReader.read

    def read_a_part(*arguments: Any, **more: Any) -> FileSlice | None:
        piece = read(*arguments, **more)
        if piece is not None:
            piece.is_cut = True
        return piece

    async with replicated() as world:
        await write(world)
        monkeypatch.setattr(LogReader, "read", read_a_part)
        assert count_of(fetched(fetch(leader(world), min_bytes=5000, **LONG))) == 1
        monkeypatch.setattr(fetch_module, "LARGE_COUNT_MIN", 0)
        parked = fetch(leader(world), min_bytes=5000, max_wait=1_000_000)
        parked.on_ready = lambda: None
        await world.settle(seconds=0.1)
        assert count_of(fetched(parked)) == 1


async def test_a_fetch_is_answered_when_its_leader_changes() -> None:
    async with replicated() as world:
        parked = fetch(leader(world), {"current_leader_epoch": 0}, **LONG)
        parked.on_ready = lambda: None
        world.elect(2)
        world.deliver()
        assert int(fetched(parked).error_code) == FENCED_EPOCH


async def test_a_client_that_left_is_not_answered() -> None:
    async with replicated() as world:
        parked = fetch(leader(world), **LONG)
        parked.on_ready = lambda: None
        parked.abandon()
        await write(world)
        await world.settle(seconds=1)
        assert parked.parts is None


# -- sessions (KIP-227) ----------------------------------------------------------------------


async def test_a_session_returns_only_partitions_with_news() -> None:
    async with replicated() as world:
        await write(world)
        first = reply_of("fetch", 17, fetch(leader(world), session_epoch=0))
        assert first.session_id > 0
        again = {"session_id": first.session_id, "topics": []}
        second = reply_of("fetch", 17, fetch(leader(world), session_epoch=1, **again))
        assert (int(second.error_code), count_of(second.responses[0].partitions[0])) == (0, 1), "offset 0 still"
        moved = [{"topic_id": TOPIC_ID, "partitions": [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 99}]}]
        third = reply_of("fetch", 17, fetch(leader(world), session_epoch=2, **{**again, "topics": moved}))
        assert third.responses == ()
        await write(world)
        fourth = reply_of("fetch", 17, fetch(leader(world), session_epoch=3, **again))
        assert count_of(fourth.responses[0].partitions[0]) == 1


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "error"), [(-1, 9, INVALID_SESSION_EPOCH), (12345, 1, SESSION_NOT_FOUND)]
)
async def test_an_unknown_session_refuses_the_whole_request(session_id: int, session_epoch: int, error: int) -> None:
    async with replicated() as world:
        first = reply_of("fetch", 17, fetch(leader(world), session_epoch=0))
        sent_id = first.session_id if session_id < 0 else session_id
        reply = reply_of("fetch", 17, fetch(leader(world), session_id=sent_id, session_epoch=session_epoch, topics=[]))
        assert (int(reply.error_code), reply.responses) == (error, ())


# -- failures, quotas, many partitions -------------------------------------------------------


@pytest.mark.parametrize(("failure", "error"), [(OSError(5, "bad sector"), STORAGE_ERROR), (RuntimeError("bug"), -1)])
async def test_a_log_that_cannot_be_read_is_an_error_of_its_partition(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, error: int
) -> None:
    async with replicated() as world:
        await write(world)

        def fail(*_: Any, **__: Any) -> None:
            raise failure

        monkeypatch.setattr(type(leader(world).partition), "read", fail)
        assert int(fetched(fetch(leader(world), **LONG)).error_code) == error
        assert leader(world).context.metrics.failed_fetches.value == 1


async def test_a_client_over_its_quota_gets_only_a_throttle_time() -> None:
    async with replicated() as world:
        await write(world, 4, size=100)
        table = Table({(("user", None),): {"consumer_byte_rate": 100.0}}, Spans(rate_s=1))
        muted: list[float] = []
        client = table.client("u", "c", lambda key, seconds: muted.append(seconds), world.clock.monotonic())
        first = reply_of("fetch", 17, fetch(leader(world), client=client))
        assert count_of(first.responses[0].partitions[0]) == 1
        second = reply_of("fetch", 17, fetch(leader(world), client=client, **LONG))
        assert (second.responses, int(second.error_code)) == ((), 0)
        assert second.throttle_time.total_seconds() > 0
        assert muted


async def test_many_partitions_are_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "LARGE_COUNT_MIN", 2)
    async with replicated() as world:
        await write(world)
        parked = fetch(leader(world), {}, {"partition": 7}, {"partition": 8})
        parked.on_ready = lambda: None
        await world.settle(seconds=0.1)
        rows = reply_of("fetch", 17, parked).responses[0].partitions
        assert [(row.partition_index, int(row.error_code)) for row in rows] == [(0, 0), (7, 3), (8, 3)]


async def test_many_partitions_wait_for_news_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "LARGE_COUNT_MIN", 2)
    async with replicated() as world:
        parked = fetch(leader(world), {}, {}, {}, max_wait=5000)
        parked.on_ready = lambda: None
        await world.settle(seconds=0.1)
        assert parked.parts is None
        await write(world)
        rows = reply_of("fetch", 17, parked).responses[0].partitions
        assert count_of(rows[0]) == 1


# -- followers and racks (KIP-392) -----------------------------------------------------------


async def in_racks(world: ReplicatedPartition, racks: str = "abc") -> None:
    """Put each node into a rack, and write five records."""
    for node in world.nodes.values():
        broker = world.image.brokers[node.id]
        world.commit(
            RegisterBrokerRecord(
                broker_id=node.id,
                incarnation_id=broker.incarnation_id,
                broker_epoch=broker.epoch,
                end_points=broker.end_points,
                rack=racks[node.id - 1],
                fenced=False,
                log_dirs=broker.log_dirs,
            )
        )
    await world.settle()
    await write(world, 5)


async def test_a_follower_serves_a_consumer_up_to_its_own_high_watermark() -> None:
    async with replicated() as world:
        await in_racks(world)
        row = fetched(fetch(world.nodes[NodeId(2)]))
        assert (int(row.error_code), row.high_watermark, count_of(row)) == (0, 5, 5)


async def test_a_follower_refuses_a_consumer_of_an_old_version() -> None:
    async with replicated() as world:
        await in_racks(world)
        assert int(fetched(fetch(world.nodes[NodeId(2)], version=10), 10).error_code) == NOT_LEADER


@pytest.mark.parametrize(("rack", "preferred"), [("c", 3), ("a", -1), ("nowhere", -1), ("", -1)])
async def test_a_consumer_is_redirected_to_the_replica_in_its_rack(rack: str, preferred: int) -> None:
    async with replicated(replica_selector_class=RACK_AWARE) as world:
        await in_racks(world)
        row = fetched(fetch(leader(world), rack_id=rack))
        assert (row.preferred_read_replica, count_of(row)) == (preferred, 5 if preferred < 0 else 0)


async def test_the_leader_serves_the_consumers_of_its_own_rack() -> None:
    async with replicated(replica_selector_class=RACK_AWARE) as world:
        await in_racks(world, "aab")
        row = fetched(fetch(leader(world), rack_id="a"))
        assert (row.preferred_read_replica, count_of(row)) == (-1, 5)


async def test_without_a_selector_the_leader_serves_every_consumer() -> None:
    async with replicated() as world:
        await in_racks(world)
        assert fetched(fetch(leader(world), rack_id="c")).preferred_read_replica == -1


async def test_a_replica_outside_the_isr_is_never_preferred() -> None:
    async with replicated(replica_selector_class=RACK_AWARE) as world:
        await in_racks(world)
        world.elect(1, isr=(1, 2))
        world.deliver()
        assert fetched(fetch(leader(world), rack_id="c")).preferred_read_replica == -1


async def test_bytes_sent_are_counted_for_their_topic() -> None:
    async with replicated() as world:
        await write(world)
        replicas: Any = leader(world).replicas
        before = replicas.by_name[TOPIC.encode()].bytes_out
        row = fetched(fetch(leader(world)))
        assert replicas.by_name[TOPIC.encode()].bytes_out - before == len(bytes(row.records))


@pytest.mark.parametrize("version", [12, 17])
async def test_a_parked_fetch_is_answered_when_the_right_to_read_is_removed(version: int) -> None:
    rule = Acl(2, "orders", 3, "User:bob", "*", Operation.READ, Permission.ALLOW)
    other = rule._replace(resource_name="other")
    authorizer = Authorizer()
    authorizer.load([rule, other])
    rights = authorizer.rights(user("bob"), "10.0.0.1")
    async with replicated() as world:
        node = leader(world)
        authorizer.on_change.append(node.fetch.rights_changed)
        parked = fetch(node, version=version, rights=rights, **LONG)
        assert isinstance(parked, PendingFetch)
        parked.on_ready = lambda: None
        authorizer.change(removed=[other], added=[])
        assert parked.parts is None, "the client can still read the topic"
        authorizer.change(removed=[rule], added=[])
        assert int(fetched(parked, version=version).error_code) == TopicAuthorizationFailed.code
