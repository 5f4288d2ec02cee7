"""FindCoordinator through its handler."""

from typing import Any

import pytest
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from penstock.handlers import (
    find_coordinator,
)
from penstock.model.topic import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode

COORDINATOR_NOT_AVAILABLE = 15
INVALID_REQUEST = 42


async def test_the_first_question_for_a_coordinator_makes_the_topic() -> None:
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


async def test_a_topic_that_cannot_be_made_is_no_coordinator_yet() -> None:
    world = FakeNode({"offsets.topic.replication.factor": "3"})
    body = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))  # type: ignore[arg-type]
    reply = await world.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert (reply.coordinators[0].error_code, reply.coordinators[0].node_id) == (COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize(
    ("version", "key_type", "key", "error"),
    [
        (2, 7, "t", INVALID_REQUEST),
        (5, 2, "g:a:0", INVALID_REQUEST),
        (6, 2, "g:a:0", COORDINATOR_NOT_AVAILABLE),
        (6, 2, "g", INVALID_REQUEST),
        (6, 3, "g", INVALID_REQUEST),
    ],
)
async def test_other_coordinators_are_not_there(version: int, key_type: int, key: str, error: int) -> None:
    world = FakeNode()
    body = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))  # type: ignore[arg-type]
    reply = await find_coordinator.handle(world.context, world.request(ApiKey.FIND_COORDINATOR, version, body))
    found = reply if version < 4 else reply.coordinators[0]
    assert (found.error_code, found.node_id) == (error, -1)
    # Only a single answer is explained, and a key of a type that nobody knows.
    assert bool(found.error_message) == (version < 4 or key_type == 3)


async def test_the_coordinator_of_a_transactional_id_is_found_and_its_topic_made() -> None:
    node = FakeNode()
    body: Any = FindCoordinatorRequest(key_type=1, coordinator_keys=("tx",))  # type: ignore[arg-type]
    reply = await node.ask(find_coordinator.handle, ApiKey.FIND_COORDINATOR, body)
    assert [(each.key, each.node_id, each.error_code) for each in reply.coordinators] == [("tx", 1, 0)]
    assert len(node.image.topics[TRANSACTION_STATE].partitions) == 50
    assert node.image.topic_config(TRANSACTION_STATE)["cleanup.policy"] == "compact"
