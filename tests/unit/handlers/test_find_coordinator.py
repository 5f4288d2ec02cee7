"""FindCoordinator through its handler."""

from typing import Any

import pytest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from penstock.handlers import (
    find_coordinator,
)
from penstock.model.topic import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from penstock.wire import codec
from penstock.wire.api import ApiKey
from tests.unit.controller.cluster import broker
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of, put_topic

COORDINATOR_NOT_AVAILABLE = 15
INVALID_REQUEST = 42


async def test_the_first_request_for_a_coordinator_creates_the_topic() -> None:
    world = FakeNode({"offsets.topic.num.partitions": "5"})
    body = FindCoordinatorRequest(key_type=0, coordinator_keys=("g", "h"))  # type: ignore[arg-type]
    reply = await world.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert [(each.key, each.node_id, each.host, each.port, each.error_code) for each in reply.coordinators] == [
        ("g", 1, "host1", 9092, 0),
        ("h", 1, "host1", 9092, 0),
    ]
    assert len(world.image.topics[CONSUMER_OFFSETS].partitions) == 5
    assert world.image.topic_config(CONSUMER_OFFSETS) == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
        "compression.type": "producer",
    }


async def test_there_is_no_coordinator_while_the_topic_cannot_be_created() -> None:
    world = FakeNode({"offsets.topic.replication.factor": "3"})
    body = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))  # type: ignore[arg-type]
    reply = await world.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert (reply.coordinators[0].error_code, reply.coordinators[0].node_id) == (COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize(
    ("version", "key_type", "key", "error"),
    [
        (2, 7, "t", INVALID_REQUEST),
        (5, 2, "g:a:0", INVALID_REQUEST),
        (6, 2, "g:a:0", INVALID_REQUEST),
        (6, 2, "g", INVALID_REQUEST),
        (6, 3, "g", INVALID_REQUEST),
    ],
)
async def test_other_key_types_have_no_coordinator(version: int, key_type: int, key: str, error: int) -> None:
    world = FakeNode()
    body = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))  # type: ignore[arg-type]
    reply = await find_coordinator.handle(world.context, world.request(ApiKey.FIND_COORDINATOR, version, body))
    found = reply if version < 4 else reply.coordinators[0]
    assert (found.error_code, found.node_id) == (error, -1)
    # Only the response to a single key has a message, and that to a key of an unknown type.
    assert bool(found.error_message) == (version < 4 or key_type == 3)


async def test_the_coordinator_of_a_transactional_id_is_found_and_its_topic_created() -> None:
    node = FakeNode()
    body: Any = FindCoordinatorRequest(key_type=1, coordinator_keys=("tx",))  # type: ignore[arg-type]
    reply = await node.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert [(each.key, each.node_id, each.error_code) for each in reply.coordinators] == [("tx", 1, 0)]
    assert len(node.image.topics[TRANSACTION_STATE].partitions) == 50
    assert node.image.topic_config(TRANSACTION_STATE)["cleanup.policy"] == "compact"


async def test_the_coordinator_of_a_share_partition_is_found_and_its_topic_created() -> None:
    node = FakeNode()
    key = "g:with:colons:AAAAAAAAAAAAAAAAAAAAAQ:0"
    body: Any = FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))  # type: ignore[arg-type]
    reply = await node.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert [(each.key, each.node_id, each.error_code) for each in reply.coordinators] == [(key, 1, 0)]
    assert node.image.topic_config(SHARE_GROUP_STATE)["cleanup.policy"] == "delete"


@pytest.mark.parametrize("version", range(4))
async def test_old_versions_have_one_key(version: int) -> None:
    node = FakeNode()
    written = codec.write_request(
        ApiKey.FIND_COORDINATOR, version, body_of(ApiKey.FIND_COORDINATOR, version, key="g", key_type=0)
    )
    body = codec.read_request(ApiKey.FIND_COORDINATOR, version, written)
    reply = await find_coordinator.handle(node.context, node.request(ApiKey.FIND_COORDINATOR, version, body))
    assert (reply.error_code, reply.node_id, reply.host, reply.port) == (0, 1, "host1", 9092)
    if version >= 1:
        assert reply.error_message == "NONE"


async def test_no_keys_get_no_coordinators() -> None:
    node = FakeNode()
    body = body_of(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=())
    assert (await node.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)).coordinators == ()


@pytest.mark.parametrize("leader", [2, 3, 9, -1])
async def test_a_partition_whose_leader_cannot_be_reached_has_no_coordinator(leader: int) -> None:
    node = FakeNode(brokers=[broker(1), broker(2, fenced=True), broker(3)])
    put_topic(node, CONSUMER_OFFSETS, 1, leader=leader)
    body = body_of(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=("g",))
    request = node.request(ApiKey.FIND_COORDINATOR, 6, body, listener="PLAINTEXT" if leader != 3 else "EXTERNAL")
    (found,) = (await find_coordinator.handle(node.context, request)).coordinators
    assert (found.error_code, found.node_id, found.host, found.port) == (COORDINATOR_NOT_AVAILABLE, -1, "", -1)


async def test_the_leader_of_the_keys_partition_coordinates() -> None:
    node = FakeNode(brokers=[broker(1), broker(2)])
    put_topic(node, CONSUMER_OFFSETS, 1, leader=2)
    body = body_of(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=("g", "g"))
    reply = await node.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert [(each.key, each.node_id, each.host) for each in reply.coordinators] == [("g", 2, "host2")] * 2
