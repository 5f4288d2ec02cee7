"""ShareAcknowledge through its handler, on a real share leader with a coordinator in memory."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.share_acknowledge.v2 import request as wire

from penstock.handlers import share_acknowledge
from penstock.wire.api import ApiKey
from tests.unit.handlers.test_share_fetch import INVALID, INVALID_STATE, NOT_FOUND, WRONG_EPOCH, Client, acquired
from tests.unit.shares.share_node import TOPIC_ID, ShareNode


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    shares = ShareNode()
    await shares.initialize()
    shares.produce(3)
    yield Client(shares)
    shares.leader.close()


async def acknowledge(
    client: Client, epoch: int, *batches: tuple[int, int, tuple[int, ...]], index: int = 0, **fields: Any
) -> Any:
    read: Any = tuple(
        wire.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)  # type: ignore[arg-type]
        for first, last, types in batches
    )
    partition = wire.AcknowledgePartition(partition_index=index, acknowledgement_batches=read)  # type: ignore[arg-type]
    given: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": epoch,
        "topics": (wire.AcknowledgeTopic(topic_id=TOPIC_ID, partitions=(partition,)),) if batches else (),
    }
    body = wire.ShareAcknowledgeRequest(**{**given, **fields})
    return await client.node.ask(share_acknowledge.handle, ApiKey.SHARE_ACKNOWLEDGE, body)


def errors(reply: Any) -> list[int]:
    assert reply.error_code == 0
    return [partition.error_code.value for topic in reply.responses for partition in topic.partitions]


async def test_outcomes_are_written(client: Client) -> None:
    await client.fetch(0, 0)
    reply = await acknowledge(client, 1, (0, 2, (1, 3, 0)))
    assert (errors(reply), reply.acquisition_lock_timeout) == ([0], timedelta(seconds=30))
    assert client.shares.state.start_offset == 3


async def test_a_record_that_is_not_held_is_an_error_of_its_partition(client: Client) -> None:
    await client.fetch(0, 0)
    assert errors(await acknowledge(client, 1, (0, 0, (2,)))) == [0]
    assert errors(await acknowledge(client, 2, (0, 0, (1,)))) == [INVALID_STATE]
    assert errors(await acknowledge(client, 3, (2, 1, (1,)))) == [INVALID]


async def test_sessions_are_checked(client: Client) -> None:
    assert (await acknowledge(client, 0, (0, 0, (1,)))).error_code == WRONG_EPOCH
    assert (await acknowledge(client, 1, (0, 0, (1,)))).error_code == NOT_FOUND
    assert (await acknowledge(client, 1, member_id="")).error_code == INVALID
    await client.fetch(0, 0)
    assert (await acknowledge(client, 2, (0, 0, (1,)))).error_code == WRONG_EPOCH


async def test_the_last_request_closes_the_session(client: Client) -> None:
    await client.fetch(0, 0)
    assert errors(await acknowledge(client, -1, (0, 0, (1,)))) == [0]
    assert (await acknowledge(client, 1)).error_code == NOT_FOUND
    assert acquired(await client.fetch(0, 0, member="other")) == {0: [(1, 2, 2)]}


async def test_a_partition_without_records_in_flight_is_an_error(client: Client) -> None:
    await client.fetch(0, 0)
    assert errors(await acknowledge(client, 1, (0, 0, (1,)), index=1)) == [3]
