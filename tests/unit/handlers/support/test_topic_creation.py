"""Topics that are created because a client asks for them."""

from typing import Any

import pytest
from kio.schema.envelope.v0.request import EnvelopeRequest

from penstock.client.interfaces import PeerUnavailable
from penstock.handlers import envelope
from penstock.handlers.support.topic_creation import create_automatically, ensure_topic
from penstock.model.errors import StorageError
from penstock.model.ids import TopicName
from penstock.model.topic import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from penstock.security.principal import Principal, encode_principal
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import LimitedClient


@pytest.mark.parametrize(
    ("name", "setting", "configs"),
    [
        (
            CONSUMER_OFFSETS,
            "offsets.topic.num.partitions",
            {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
        ),
        (
            TRANSACTION_STATE,
            "transaction.state.log.num.partitions",
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "2",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            },
        ),
        (
            SHARE_GROUP_STATE,
            "share.coordinator.state.topic.num.partitions",
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "2",
                "retention.ms": "-1",
                "segment.bytes": "104857600",
            },
        ),
        (TopicName("orders"), "num.partitions", {}),
    ],
)
async def test_each_topic_has_the_settings_of_its_coordinator(
    name: TopicName, setting: str, configs: dict[str, str]
) -> None:
    factors = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    copies = {f"{each}.replication.factor": "1" for each in factors}
    least = {"transaction.state.log.min.isr": "2", "share.coordinator.state.topic.min.isr": "2"}
    node = FakeNode({setting: "7", **copies, **least})
    await create_automatically(node.context, [name])
    assert len(node.image.topics[name].partitions) == 7
    assert node.image.topic_config(name) == configs


class OtherController:
    """A relay to the active controller on another node."""

    is_needed = True

    def __init__(self, node: FakeNode, *, is_gone: bool = False) -> None:
        self.node = node
        self.is_gone = is_gone
        self.commands: list[Any] = []

    async def ask(self, api_key: int, request: Any) -> None:
        self.commands.append((api_key, [topic.name for topic in request.topics]))
        if self.is_gone:
            raise PeerUnavailable("gone")


async def test_the_controller_on_another_node_gets_the_request() -> None:
    node = FakeNode()
    relay: Any = OtherController(node)
    node.context.relay = relay
    await create_automatically(node.context, [TopicName("a"), CONSUMER_OFFSETS])
    assert relay.commands == [(ApiKey.CREATE_TOPICS, ["a", CONSUMER_OFFSETS])]


async def test_the_controller_on_another_node_charges_the_client_that_names_the_topic() -> None:
    world, controller = LimitedClient(), FakeNode()
    controller.context.throttle.quotas_changed({(("user", None),): {"controller_mutation_rate": 1.0}})

    class Forwarding(OtherController):
        async def forward(self, frame: bytes, api_key: int, address: bytes, principal: Principal) -> bytes | None:
            sealed = EnvelopeRequest(
                request_data=frame, request_principal=encode_principal(principal), client_host_address=address
            )
            reply = await controller.ask(envelope.handle, ApiKey.ENVELOPE, sealed)
            data: bytes | None = reply.response_data
            return data

    relay: Any = Forwarding(world.node)
    world.node.context.relay = relay
    request = world.request(ApiKey.METADATA, 12, None)
    await create_automatically(world.node.context, [TopicName(f"t{number}") for number in range(20)], request)
    assert len(controller.image.topics) == 12
    assert request.header.throttle_ms == 1000
    assert world.muted == [1.0]


async def test_a_topic_stays_missing_if_the_controller_is_gone_or_refuses() -> None:
    node = FakeNode()
    gone: Any = OtherController(node, is_gone=True)
    node.context.relay = gone
    assert await ensure_topic(node.context, CONSUMER_OFFSETS) is None
    node = FakeNode()
    node.quorum.refusal = StorageError()
    assert await ensure_topic(node.context, CONSUMER_OFFSETS) is None


async def test_a_topic_that_exists_is_not_created_again() -> None:
    node = FakeNode({"offsets.topic.replication.factor": "1"})
    made = await ensure_topic(node.context, CONSUMER_OFFSETS)
    assert made is not None
    before = node.image
    assert await ensure_topic(node.context, CONSUMER_OFFSETS) is made
    assert node.image is before
