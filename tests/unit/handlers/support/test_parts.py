"""Long requests get the same response in parts as in one."""

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.offset_for_leader_epoch.v4 import request as epoch_request
from kio.schema.offset_for_leader_epoch.v4 import response as epoch_response

from penstock.handlers.support import parts
from penstock.handlers.support.entities import NO_THROTTLE
from penstock.handlers.support.parts import CHECKED_PER_SLICE, FEW_MAX, PART_SIZE, SPLITS, answer_in_parts, is_long
from penstock.scheduling.scheduler import Unpaced
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import MalformedRequest
from penstock.wire.schema import shape_of
from tests.unit.handlers.fakes import FakeNode


def epochs(*counts: int) -> Any:
    return epoch_request.OffsetForLeaderEpochRequest(
        replica_id=-1,  # type: ignore[arg-type]
        topics=tuple(
            epoch_request.OffsetForLeaderTopic(
                topic=f"t{number}",  # type: ignore[arg-type]
                partitions=tuple(
                    epoch_request.OffsetForLeaderPartition(
                        partition=index,  # type: ignore[arg-type]
                        current_leader_epoch=-1,  # type: ignore[arg-type]
                        leader_epoch=0,  # type: ignore[arg-type]
                    )
                    for index in range(count)
                ),
            )
            for number, count in enumerate(counts)
        ),
    )


async def answer(context: Any, request: Any) -> Any:
    """Return the request's content as the response."""
    size = sum(len(topic.partitions) or 1 for topic in request.body.topics)
    assert 0 < size <= PART_SIZE
    return epoch_response.OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            epoch_response.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    epoch_response.EpochEndOffset(error_code=0, partition=each.partition)  # type: ignore[arg-type]
                    for each in topic.partitions
                ),
            )
            for topic in request.body.topics
        ),
    )


@pytest.mark.parametrize("counts", ([1] * 350, [350], [0, 1, 99, 1, 100, 101, 0, 250, 3], [PART_SIZE + 1]))
async def test_no_part_is_long_and_the_joined_response_has_all_entries_in_order(counts: list[int]) -> None:
    node = FakeNode()
    request = node.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, epochs(*counts))
    assert await is_long(request)
    found = await answer_in_parts(answer, node.context, request)
    assert [(each.topic, [one.partition for one in each.partitions]) for each in found.topics] == [
        (f"t{number}", list(range(count))) for number, count in enumerate(counts)
    ]


async def test_a_short_request_is_not_split() -> None:
    node = FakeNode()
    assert not await is_long(node.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, epochs(PART_SIZE)))
    assert not await is_long(node.request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, epochs()))


async def test_lists_that_no_client_sends_are_refused() -> None:
    resource = DescribeConfigsResource(
        resource_type=2,  # type: ignore[arg-type]
        resource_name="t",
        configuration_keys=("x",) * (FEW_MAX + 1),
    )
    with pytest.raises(MalformedRequest):
        await is_long(FakeNode().request(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=(resource,))))


class CountingPace(Unpaced):
    def __init__(self) -> None:
        self.rests = 0

    async def rest(self) -> None:
        self.rests += 1


async def test_a_hundred_thousand_entries_are_checked_in_slices() -> None:
    resource = DescribeConfigsResource(
        resource_type=2,  # type: ignore[arg-type]
        resource_name="t",
        configuration_keys=None,
    )
    pace = CountingPace()
    request = FakeNode().request(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=(resource,) * 100_000))
    assert await is_long(replace(request, pace=pace))
    assert pace.rests >= 100_000 // CHECKED_PER_SLICE - 1


@pytest.mark.parametrize("api_key", SPLITS)
def test_the_table_names_fields_that_exist(api_key: int) -> None:
    split = SPLITS[api_key]
    entries = shape_of(codec.seen_request_class(api_key)).find(split.entries)
    answers = shape_of(codec.response_class(api_key, APIS[api_key].max_version)).find(split.answers)
    assert entries is not None and answers is not None
    for name in (split.inner, *split.few):
        assert not name or (entries.entity is not None and shape_of(entries.entity).find(name) is not None)
    if split.inner_answers:
        assert answers.entity is not None
        assert {split.inner_answers, split.key} <= {field.name for field in shape_of(answers.entity).plain}
    assert parts.SPLITS is SPLITS
