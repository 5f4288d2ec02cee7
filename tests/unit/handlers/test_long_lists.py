"""Handlers of long lists rest after each slice, whatever the list contains."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from penstock.groups.commands import DescribedGroup, DescribedMember, DescribeGroups
from penstock.groups.consumer.commands import ConsumerGroupDescribe, DescribedConsumerGroup, DescribedConsumerMember
from penstock.handlers.support.registry import COLD
from penstock.model.job import finish
from penstock.scheduling.scheduler import SLICE_COST, Pace
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of

COUNT = 5_000


class CountingPace(Pace):
    """A pace that counts rests."""

    __slots__ = ("rest_count",)

    def __init__(self, node: FakeNode) -> None:
        super().__init__(node.context.scheduler, lambda: True)
        self.rest_count = 0

    async def rest(self) -> None:
        self.rest_count += 1

    async def finish(self, start: Callable[[], Any], *, memory: int = 0) -> Any:
        return finish(start())


@pytest.mark.parametrize(
    ("api_key", "version", "values", "passes"),
    [
        pytest.param(
            ApiKey.METADATA,
            12,
            {"topics": [{"topic_id": UUID(int=number + 1), "name": None} for number in range(COUNT)]},
            3,
            id="unknown ids",
        ),
        pytest.param(
            ApiKey.METADATA,
            10,
            {"topics": [{"topic_id": UUID(int=number + 1), "name": "a"} for number in range(COUNT)]},
            2,
            id="ids that the version refuses",
        ),
        pytest.param(
            ApiKey.LIST_OFFSETS,
            5,
            {"topics": [{"name": f"t{number}", "partitions": ()} for number in range(COUNT)], "replica_id": -1},
            3,
            id="topics without partitions",
        ),
        pytest.param(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            1,
            {"dirs": [{"path": "/", "topics": [{"name": f"t{number}", "partitions": ()} for number in range(COUNT)]}]},
            1,
            id="topics without partitions in a directory",
        ),
        pytest.param(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            1,
            {"dirs": [{"path": "/", "topics": ()} for _ in range(COUNT)]},
            1,
            id="directories without topics",
        ),
    ],
)
async def test_a_handler_rests_in_each_pass_over_a_list(
    api_key: int, version: int, values: dict[str, Any], passes: int
) -> None:
    node = FakeNode()
    pace = CountingPace(node)
    written = codec.write_request(api_key, version, body_of(api_key, version, **values))
    body = codec.read_request(api_key, version, written)
    request = replace(node.request(api_key, version, body), pace=pace)
    await COLD[api_key](node.context, request)
    assert pace.rest_count >= passes * COUNT // SLICE_COST - passes


async def test_descriptions_of_a_broker_rest_after_every_other_one() -> None:
    node = FakeNode()
    pace = CountingPace(node)
    resources = [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}] * 10
    body = body_of(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources)
    request = replace(node.request(ApiKey.DESCRIBE_CONFIGS, 4, body), pace=pace)
    await COLD[ApiKey.DESCRIBE_CONFIGS](node.context, request)
    assert pace.rest_count == 4


@pytest.mark.parametrize(
    ("api_key", "field", "command", "found"),
    [
        pytest.param(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            "group_ids",
            ConsumerGroupDescribe,
            DescribedConsumerGroup(
                group_id="g",
                members=[
                    DescribedConsumerMember(
                        member_id=f"m{number}", instance_id=None, rack_id=None, member_epoch=1, client_id="",
                        client_host="", subscribed_topic_names=(), subscribed_topic_regex="", assignment=(),
                        target_assignment=(), member_type=1,
                    )
                    for number in range(COUNT)
                ],
            ),
            id="consumer group",
        ),
        pytest.param(
            ApiKey.DESCRIBE_GROUPS,
            "groups",
            DescribeGroups,
            DescribedGroup(
                group_id="g", state="Stable", members=(DescribedMember("m", None, "", "", b"", b""),) * COUNT
            ),
            id="classic group",
        ),
    ],
)  # fmt: skip
async def test_the_description_of_a_large_group_rests_after_each_slice(
    api_key: int, field: str, command: type, found: object
) -> None:
    node = FakeNode()
    node.groups.replies[command] = (found,)
    pace = CountingPace(node)
    body = body_of(api_key, APIS[api_key].max_version, **{field: ("g",)})
    request = replace(node.request(api_key, APIS[api_key].max_version, body), pace=pace)
    reply = await COLD[api_key](node.context, request)
    assert len(reply.groups[0].members) == COUNT
    assert pace.rest_count >= COUNT // SLICE_COST - 1
