"""ShareFetch and its sessions through the handler, on a real share leader with a coordinator in memory."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.share_fetch.v2 import request as wire

from penstock.handlers import share_fetch
from penstock.ports.network import FileSlice
from penstock.shares.sessions import SessionKey
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import parse_response_header
from tests.unit.handlers.fakes import FakeNode
from tests.unit.shares.share_node import TOPIC_ID, ShareNode

INVALID, UNKNOWN_TOPIC_ID, INVALID_STATE, NOT_FOUND, WRONG_EPOCH, LIMIT = 42, 100, 121, 122, 123, 133


class Client:
    """A member with one connection."""

    def __init__(self, shares: ShareNode) -> None:
        self.shares = shares
        self.node = FakeNode()
        self.node.context.clock = shares.clock
        self.node.context.replicas = shares.replicas  # type: ignore[assignment]
        self.node.shares.leader = shares.leader

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
        received = codec.read_request(
            ApiKey.SHARE_FETCH, version, codec.write_request(ApiKey.SHARE_FETCH, version, body)
        )
        request = self.node.request(ApiKey.SHARE_FETCH, version, received)
        answering = asyncio.ensure_future(share_fetch.handle(self.node.context, request))
        for _ in range(200):
            await asyncio.sleep(0)
            if answering.done():
                break
            if not wait_s:
                self.shares.clock.advance(0.001)
        if wait_s:
            return answering
        return read(version, (await answering).parts)


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
    assert reply.responses[0].partitions[0].records
    assert reply.acquisition_lock_timeout == timedelta(seconds=30)
    reply = await client.fetch(1, 0, acks=((0, 2, (1,)),), version=version)
    (partition,) = reply.responses[0].partitions
    assert (partition.acknowledge_error_code, partition.acquired_records) == (0, ())
    assert client.shares.state.start_offset == 3


async def test_a_fetch_waits_for_records(client: Client) -> None:
    answering = await client.fetch(0, 0, wait_s=5)
    assert not answering.done()
    client.shares.produce(2)
    await client.shares.settle()
    assert acquired(read(2, (await answering).parts)) == {0: [(0, 1, 1)]}


async def test_a_fetch_waits_for_released_records(client: Client) -> None:
    client.shares.produce(2)
    await client.fetch(0, 0)
    answering = await client.fetch(0, 0, member="other", wait_s=5)
    assert not answering.done()
    await client.fetch(1, 0, acks=((0, 0, (2,)),))
    await client.shares.settle()
    assert acquired(read(2, (await answering).parts)) == {0: [(0, 0, 2)]}


async def test_a_fetch_ends_after_its_time(client: Client) -> None:
    answering = await client.fetch(0, 0, wait_s=5)
    client.shares.clock.advance(5.1)
    await client.shares.settle()
    assert acquired(read(2, (await answering).parts)) == {0: []}


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
    assert (partition.acknowledge_error_code, len(partition.acquired_records)) == (INVALID, 1)


async def test_the_last_request_closes_the_session_after_its_acknowledgements(client: Client) -> None:
    client.shares.produce(2)
    await client.fetch(0, 0)
    await client.fetch(-1, 0, acks=((0, 0, (1,)),))
    assert (await client.fetch(2)).error_code == NOT_FOUND
    assert acquired(await client.fetch(0, 0, member="other")) == {0: [(1, 1, 2)]}


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


async def test_an_abandoned_fetch_acquires_nothing(client: Client) -> None:
    answering = await client.fetch(0, 0, wait_s=5)
    session = client.shares.leader.sessions.get(SessionKey("g", "m"))
    assert session is not None
    client.shares.leader.connection_lost(session.connection)
    client.shares.produce(1)
    await client.shares.settle()
    assert acquired(read(2, (await answering).parts)) == {0: []}
    assert acquired(await client.fetch(0, 0, member="other")) == {0: [(0, 0, 1)]}
