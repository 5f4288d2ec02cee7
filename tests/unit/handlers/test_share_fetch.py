"""ShareFetch and its sessions through the handler, on a real share leader with a coordinator in memory."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.share_fetch.v2 import request as wire

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.handlers import share_fetch
from penstock.handlers.support.context import Request
from penstock.handlers.support.reply import ColdReply, Encoded, Parked, Parts
from penstock.model.errors import FencedLeaderEpoch
from penstock.ports.network import FileSlice
from penstock.quotas.limits import Client as Quotas
from penstock.quotas.limits import Spans, Table
from penstock.shares.commands import ReadState
from penstock.shares.sessions import SessionKey
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header, parse_response_header
from tests.unit.handlers.fakes import FakeConnection, FakeNode
from tests.unit.shares.share_node import TOPIC_ID, ShareNode

INVALID, UNKNOWN_TOPIC_ID, INVALID_STATE, NOT_FOUND, WRONG_EPOCH, LIMIT = 42, 100, 121, 122, 123, 133
NOT_LEADER, STORAGE_ERROR = 6, 56


class Client:
    """A member with one connection."""

    def __init__(self, shares: ShareNode) -> None:
        self.shares = shares
        self.node = FakeNode()
        self.connection: Any = FakeConnection()
        self.throttle_ms = 0
        self.quotas: Quotas | None = None
        self.muted: list[tuple[int, float]] = []
        self.node.context.clock = shares.clock
        self.node.context.replicas = shares.replicas  # type: ignore[assignment]
        self.node.shares.leader = shares.leader

    def limit(self, rate: float) -> None:
        table = Table({(("user", None),): {"consumer_byte_rate": rate}}, Spans(rate_s=1))
        self.quotas = table.client(
            "u", "c", lambda key, seconds: self.muted.append((key, seconds)), self.shares.clock.monotonic()
        )

    async def fetch(
        self,
        epoch: int,
        *indexes: int,
        acks: tuple[tuple[int, int, tuple[int, ...]], ...] = (),
        member: str = "m",
        topic_id: UUID = TOPIC_ID,
        version: int = 2,
        wait_s: float = 0,
        **fields: Any,
    ) -> Any:
        batches: Any = tuple(
            wire.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)  # type: ignore[arg-type]
            for first, last, types in acks
        )
        partitions: Any = tuple(
            wire.FetchPartition(partition_index=index, acknowledgement_batches=batches)  # type: ignore[arg-type]
            for index in indexes
        )
        given: dict[str, Any] = {
            "group_id": "g",
            "member_id": member,
            "share_session_epoch": epoch,
            "max_wait": timedelta(seconds=0 if fields.get("is_renew_ack") else wait_s or 0.05),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": (wire.FetchTopic(topic_id=topic_id, partitions=partitions),) if indexes else (),
            "forgotten_topics_data": (),
        }
        body = wire.ShareFetchRequest(**{**given, **fields})
        reply = await self.answer(version, bytes(codec.write_request(ApiKey.SHARE_FETCH, version, body)))
        if not isinstance(reply, Parked):
            return read(version, reply)
        if wait_s:
            await self.shares.settle()
            return reply
        for _ in range(200):
            await asyncio.sleep(0)
            if reply.parts is not None:
                break
            self.shares.clock.advance(0.001)
        answered = asyncio.Event()
        reply.on_ready = answered.set
        if reply.parts is None:
            await answered.wait()
        return read(version, reply.parts)

    async def answer(self, version: int, data: bytes) -> Parts | Parked:
        """Answer a request as the dispatcher does."""
        header = Header(ApiKey.SHARE_FETCH, version, 1, "test", 0)
        header.throttle_ms = self.throttle_ms
        header.client = self.quotas
        reply = share_fetch.handle_frame(self.node.context, memoryview(data), header, connection=self.connection)
        if reply is not None:
            return reply
        received = codec.read_request(ApiKey.SHARE_FETCH, version, data)
        request = Request(header, received, self.connection)
        answer = await share_fetch.handle(self.node.context, request)
        if isinstance(answer, Encoded):
            return answer.parts
        parked = ColdReply()
        parked.follow(answer)
        return parked


def read(version: int, parts: Any) -> Any:
    frame = memoryview(
        b"".join(bytes(p.file.read(p.size, p.position)) if isinstance(p, FileSlice) else bytes(p) for p in parts)
    )
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    _, position = parse_response_header(ApiKey.SHARE_FETCH, version, frame[4:])
    return codec.read_response(ApiKey.SHARE_FETCH, version, frame[4 + position :])


def acquired(reply: Any) -> dict[int, list[tuple[int, int, int]]]:
    assert reply.error_code == 0
    return {
        partition.partition_index: [
            (each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records
        ]
        for topic in reply.responses
        for partition in topic.partitions
        if not partition.error_code
    }


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    shares = ShareNode()
    await shares.initialize()
    yield Client(shares)
    shares.leader.close()


@pytest.mark.parametrize("version", [1, 2])
async def test_records_are_acquired_and_accepted(client: Client, version: int) -> None:
    client.shares.produce(3)
    reply = await client.fetch(0, 0, version=version)
    assert acquired(reply) == {0: [(0, 2, 1)]}
    records = reply.responses[0].partitions[0].records
    assert records and client.shares.replicas.by_id[TOPIC_ID.bytes].bytes_out == len(records)
    assert reply.acquisition_lock_timeout == timedelta(seconds=30)
    reply = await client.fetch(1, 0, acks=((0, 2, (1,)),), version=version)
    (partition,) = reply.responses[0].partitions
    assert (partition.acknowledge_error_code, partition.acquired_records) == (0, ())
    assert client.shares.state.start_offset == 3


async def test_the_response_to_a_fetch_with_acknowledgements_waits_for_their_write(client: Client) -> None:
    client.shares.produce(1, 1)
    assert acquired(await client.fetch(0, 0, max_records=1)) == {0: [(0, 0, 1)]}
    client.shares.state.hold = asyncio.Event()
    answering = asyncio.ensure_future(client.fetch(1, 0, acks=((0, 0, (1,)),), max_records=1))
    await client.shares.settle()
    assert not answering.done()
    client.shares.state.hold.set()
    reply = await answering
    assert acquired(reply) == {0: [(1, 1, 1)]}
    assert client.shares.state.start_offset == 1


async def test_the_error_of_a_write_is_in_the_response_with_the_records(client: Client) -> None:
    client.shares.produce(1, 1)
    await client.fetch(0, 0, max_records=1)
    client.shares.state.errors = [CoordinatorNotAvailable.code]
    (partition,) = (await client.fetch(1, 0, acks=((0, 0, (1,)),), max_records=1)).responses[0].partitions
    assert partition.acknowledge_error_code == CoordinatorNotAvailable.code
    assert [each.first_offset for each in partition.acquired_records] == [1]


async def test_a_fetch_waits_for_records(client: Client) -> None:
    answering = await client.fetch(0, 0, wait_s=5)
    assert answering.parts is None
    client.shares.produce(2)
    await client.shares.settle()
    assert acquired(read(2, answering.parts)) == {0: [(0, 1, 1)]}


async def test_a_fetch_waits_for_released_records(client: Client) -> None:
    client.shares.produce(2)
    await client.fetch(0, 0)
    answering = await client.fetch(0, 0, member="other", wait_s=5)
    assert answering.parts is None
    await client.fetch(1, 0, acks=((0, 0, (2,)),))
    await client.shares.settle()
    assert acquired(read(2, answering.parts)) == {0: [(0, 0, 2)]}


async def test_a_fetch_ends_after_its_time(client: Client) -> None:
    answering = await client.fetch(0, 0, wait_s=5)
    client.shares.clock.advance(5.1)
    await client.shares.settle()
    assert acquired(read(2, answering.parts)) == {0: []}


async def test_several_partitions_share_the_limit_of_records(client: Client) -> None:
    for index in (0, 1):
        client.shares.produce(3, index=index)
    got = acquired(await client.fetch(0, 0, 1, max_records=3))
    assert sum(len(ranges) for ranges in got.values()) == 1
    assert sum(len(ranges) for ranges in acquired(await client.fetch(1)).values()) == 1


async def test_with_record_limit_a_batch_is_split(client: Client) -> None:
    client.shares.produce(5)
    reply = await client.fetch(0, 0, max_records=2, share_acquire_mode=1)
    assert acquired(reply) == {0: [(0, 1, 1)]}
    assert acquired(await client.fetch(1, max_records=2, share_acquire_mode=1)) == {0: [(2, 3, 1)]}


async def test_a_rejected_acknowledgement_does_not_stop_the_fetch(client: Client) -> None:
    client.shares.produce(1)
    await client.fetch(0, 0)
    released = await client.fetch(1, 0, acks=((0, 0, (2,)),))
    assert acquired(released) == {0: [(0, 0, 2)]}, "a record that is released is available again"
    await client.fetch(2, 0, acks=((0, 0, (1,)),))
    client.shares.produce(1)
    reply = await client.fetch(3, 0, acks=((0, 1, (1,)),))
    (partition,) = reply.responses[0].partitions
    assert (partition.acknowledge_error_code, len(partition.acquired_records)) == (INVALID_STATE, 1)


async def test_the_last_request_closes_the_session_after_its_acknowledgements(client: Client) -> None:
    client.shares.produce(2)
    await client.fetch(0, 0)
    await client.fetch(-1, 0, acks=((0, 0, (1,)),))
    assert (await client.fetch(2)).error_code == NOT_FOUND
    assert acquired(await client.fetch(0, 0, member="other")) == {0: [(1, 1, 2)]}


async def test_responses_have_the_throttle_time(client: Client) -> None:
    client.shares.produce(1)
    client.throttle_ms = 1234
    replies = [await client.fetch(0, 0), await client.fetch(1, 0), await client.fetch(1, 0)]
    assert [reply.error_code for reply in replies] == [0, 0, WRONG_EPOCH]
    assert [bool(reply.responses and reply.responses[0].partitions[0].records) for reply in replies] == [
        True,
        False,
        False,
    ]
    assert [reply.throttle_time for reply in replies] == [timedelta(milliseconds=1234)] * 3


async def test_sessions_are_checked(client: Client) -> None:
    assert (await client.fetch(1)).error_code == NOT_FOUND
    assert (await client.fetch(0, 0, acks=((0, 0, (1,)),))).error_code == INVALID
    assert (await client.fetch(0, 0, member="m" * 37)).error_code == INVALID
    await client.fetch(0, 0)
    assert (await client.fetch(5)).error_code == WRONG_EPOCH
    client.shares.session_count_max = 1
    assert (await client.fetch(0, 0, member="other")).error_code == LIMIT


async def test_a_renewal_fetches_nothing(client: Client) -> None:
    client.shares.produce(1, 1)
    await client.fetch(0, 0, max_records=1)
    renew: dict[str, Any] = {"is_renew_ack": True, "acks": ((0, 0, (4,)),)}
    assert (await client.fetch(1, 0, **renew)).error_code == INVALID
    nothing: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0}
    reply = await client.fetch(1, 0, **renew, **nothing)
    (partition,) = reply.responses[0].partitions
    assert (reply.error_code, partition.acknowledge_error_code, partition.acquired_records) == (0, 0, ())


async def test_an_unknown_topic_is_the_error_of_its_partition(client: Client) -> None:
    reply = await client.fetch(0, 0, topic_id=UUID(int=999))
    assert reply.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID


def reads(shares: ShareNode) -> int:
    """Return how often the state of share partitions was read."""
    return sum(isinstance(command, ReadState) for command in shares.state.commands)


async def test_a_share_partition_that_cannot_be_loaded_is_the_error_of_every_waiting_fetch() -> None:
    shares = ShareNode(auto_offset_reset="latest")
    await shares.initialize()
    shares.partition.log.quarantine.begin(0, "all of its segments are missing")
    client = Client(shares)
    shares.state.hold = asyncio.Event()
    waiting = [await client.fetch(0, 0, 1, member=member, wait_s=5) for member in ("a", "b")]
    shares.state.hold.set()
    await shares.settle()
    for answering in waiting:
        assert answering.parts is not None
        (damaged, healthy) = read(2, answering.parts).responses[0].partitions
        assert (damaged.partition_index, damaged.error_code) == (0, STORAGE_ERROR)
        assert damaged.error_message == "all of its segments are missing"
        assert (healthy.partition_index, healthy.error_code) == (1, 0)
    assert reads(shares) == 2, "each partition is loaded once"
    shares.leader.close()


async def test_a_leader_that_is_fenced_while_it_loads_is_the_error_of_the_fetch(client: Client) -> None:
    client.shares.state.errors = [FencedLeaderEpoch.code]
    answering = await client.fetch(0, 0, wait_s=5)
    assert answering.parts is not None
    assert read(2, answering.parts).responses[0].partitions[0].error_code == NOT_LEADER
    client.shares.produce(1)
    assert acquired(await client.fetch(1)) == {0: [(0, 0, 1)]}, "the next fetch starts over"


async def test_a_node_without_a_lease_delivers_nothing(client: Client) -> None:
    answering = await client.fetch(0, 0, wait_s=5)
    client.shares.replicas.is_leased = False
    client.shares.produce(1)
    await client.shares.settle()
    assert read(2, answering.parts).responses[0].partitions[0].error_code == NOT_LEADER
    client.shares.replicas.is_leased = True
    assert acquired(await client.fetch(1)) == {0: [(0, 0, 1)]}


async def test_an_abandoned_fetch_acquires_nothing(client: Client) -> None:
    answering = await client.fetch(0, 0, wait_s=5)
    session = client.shares.leader.sessions.get(SessionKey("g", "m"))
    assert session is not None
    client.shares.leader.connection_lost(session.connection)
    client.shares.produce(1)
    await client.shares.settle()
    assert acquired(read(2, answering.parts)) == {0: []}
    assert acquired(await client.fetch(0, 0, member="other")) == {0: [(0, 0, 1)]}


@pytest.mark.parametrize("added", [(), (0, 1)], ids=["common", "by schema"])
async def test_a_fetch_whose_connection_is_closed_acquires_nothing_for_the_session_on_another(
    client: Client, added: tuple[int, ...]
) -> None:
    await client.fetch(0, 0)
    waiting = await client.fetch(1, *added, wait_s=5)
    client.connection = FakeConnection()
    again = await client.fetch(2, wait_s=5)
    waiting.abandon()
    client.shares.produce(1)
    await client.shares.settle()
    assert waiting.parts is None
    assert acquired(read(2, again.parts)) == {0: [(0, 0, 1)]}


@pytest.mark.parametrize("added", [(), (0, 1)], ids=["common", "by schema"])
async def test_the_connection_is_closed_if_a_fetch_that_waits_fails(
    client: Client, added: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a bug")

    await client.fetch(0, 0, 1)
    waiting = await client.fetch(1, *added, wait_s=5)
    for led in client.shares.leader:
        monkeypatch.setattr(led, "acquire", fail)
    client.shares.produce(1)
    await client.shares.settle()
    assert (waiting.failed, waiting.parts) == (True, ())


async def test_one_record_wakes_one_of_the_fetches_that_wait(client: Client) -> None:
    waiting = [await client.fetch(0, 0, member=member, wait_s=5) for member in ("a", "b", "c")]
    client.shares.produce(1)
    await client.shares.settle()
    assert [each.parts is not None for each in waiting] == [True, False, False], "the oldest one gets the record"
    client.shares.produce(1, 1)
    await client.shares.settle()
    assert acquired(read(2, waiting[1].parts)) == {0: [(1, 2, 1)]}


async def test_requests_behind_a_fetch_wait_for_its_records_but_not_for_its_write(client: Client) -> None:
    waiting = await client.fetch(0, 0, wait_s=5, max_records=1)
    assert waiting.holds_next
    client.shares.produce(1, 1)
    await client.shares.settle()
    client.shares.state.hold = asyncio.Event()
    writing = await client.fetch(1, 0, acks=((0, 0, (1,)),), max_records=1, wait_s=5)
    assert (writing.parts, writing.holds_next) == (None, False)
    client.shares.state.hold.set()
    await client.shares.settle()
    assert acquired(read(2, writing.parts)) == {0: [(1, 1, 1)]}


async def test_a_session_that_is_closed_ends_the_fetch_that_waits(client: Client) -> None:
    waiting = [await client.fetch(0, 0, member=member, wait_s=5) for member in ("a", "b")]
    session = client.shares.leader.sessions.get(SessionKey("g", "b"))
    assert session is not None
    client.shares.leader.close_session(session)
    await client.shares.settle()
    assert [each.parts is not None for each in waiting] == [False, True]


async def test_records_are_charged_to_the_quota_of_consumers(client: Client) -> None:
    client.shares.produce(3)
    client.shares.produce(3)
    client.limit(100)
    reply = await client.fetch(0, 0)
    assert acquired(reply) == {0: [(0, 2, 1)]}, "only what the quota allows at once, but a whole batch"
    size = len(reply.responses[0].partitions[0].records)
    wait_s = (size - 5) / 100
    assert reply.throttle_time.total_seconds() == pytest.approx(wait_s, abs=0.01)
    ((api_key, muted_s),) = client.muted
    assert api_key == ApiKey.SHARE_FETCH and muted_s == pytest.approx(wait_s, abs=0.01)
    reply = await client.fetch(1, 0, acks=((0, 2, (1,)),))
    (partition,) = reply.responses[0].partitions
    assert (partition.acknowledge_error_code, partition.acquired_records) == (0, ()), "acknowledgements are not limited"
    assert reply.throttle_time.total_seconds() > 0
    client.shares.clock.advance(wait_s)
    assert acquired(await client.fetch(2)) == {0: [(3, 5, 1)]}


async def test_a_fetch_that_waits_is_charged_when_it_gets_records(client: Client) -> None:
    client.limit(100)
    waiting = await client.fetch(0, 0, wait_s=5)
    assert isinstance(waiting, Parked) and not client.muted
    client.shares.produce(3)
    await client.shares.settle()
    assert acquired(read(2, waiting.parts)) == {0: [(0, 2, 1)]}
    assert len(client.muted) == 1
