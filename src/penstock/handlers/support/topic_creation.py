"""Creation of topics by this broker: by request, automatically, and of internal topics.

Goes to controller/topics.py. Topics that are created automatically because a client asks for them get
the broker's defaults; internal topics get the settings of their coordinators.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.client.interfaces import PeerUnavailable
from penstock.config.settings import topic_settings
from penstock.controller.topics import CreationRules, NewTopic, deciding_create, without_quota
from penstock.handlers.support.entities import int16, int32, topic_name
from penstock.handlers.support.forwarding import address_bytes
from penstock.handlers.support.throttled import Mutations, controller_throttle_ms
from penstock.model.errors import Refusal
from penstock.model.ids import TopicName
from penstock.model.topic import AUDIT, CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import parse_header, request_head

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreateTopicsRequest

    from penstock.config.settings import BrokerSettings
    from penstock.handlers.support.context import Context, Request
    from penstock.metadata.image import TopicImage

_SIZE_PREFIX: Final = 4


def creation_rules(context: "Context") -> CreationRules:
    settings = context.settings
    return CreationRules(
        partition_count=settings.integer("num.partitions"),
        replication_factor=settings.integer("default.replication.factor"),
        check_configs=lambda overrides: topic_settings(settings, overrides),
        new_id=context.entropy.uuid,
        random=context.entropy.stream("placement"),
    )


async def create_automatically(
    context: "Context", names: Sequence[TopicName], request: "Request | None" = None
) -> None:
    """Create topics; those that cannot be created stay missing. A request that names them is charged for them."""
    topics = [_as_configured(context.settings, name) for name in names]
    if not context.relay.is_needed:
        rules = creation_rules(context)
        charge = without_quota if request is None else Mutations(context, request, strict_from=0).charge
        await context.controller.run(lambda image: deciding_create(image, topics, rules, charge=charge))
    elif request is None:
        with suppress(PeerUnavailable):
            await context.relay.ask(ApiKey.CREATE_TOPICS, _request(topics))
    else:
        await _forward(context, topics, request)
    await context.replicas.settled()


async def _forward(context: "Context", topics: Sequence[NewTopic], request: "Request") -> None:
    """Have the active controller create topics for the client, which it charges."""
    version = APIS[ApiKey.CREATE_TOPICS].max_version
    body = codec.write_request(ApiKey.CREATE_TOPICS, version, _request(topics))
    head = request_head(ApiKey.CREATE_TOPICS, version, 0, request.header.client_id, len(body))
    frame = head[_SIZE_PREFIX:] + body
    address = address_bytes(request.connection.peer_host)
    answer = await context.relay.forward(frame, ApiKey.CREATE_TOPICS, address, request.principal)
    wait_ms = 0 if answer is None else controller_throttle_ms(parse_header(memoryview(frame)), answer)
    if wait_ms and request.header.client is not None:
        request.header.throttle_ms = max(request.header.throttle_ms, wait_ms)
        request.header.client.mute(request.header.api_key, wait_ms / 1000)


def _request(topics: Sequence[NewTopic]) -> "CreateTopicsRequest":
    """Return the CreateTopics request for a controller on another node."""
    from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=topic_name(topic.name),
                num_partitions=int32(topic.partition_count),
                replication_factor=int16(topic.replication_factor),
                assignments=(),
                configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs),
            )
            for topic in topics
        )
    )


async def ensure_topic(context: "Context", name: TopicName) -> "TopicImage | None":
    """Return an internal topic, and create it if it does not exist; None if it cannot be created."""
    if name not in context.quorum.image.topics:
        # A topic that is refused does not exist afterwards, and the result shows that.
        with suppress(Refusal):
            await create_automatically(context, [name])
    return context.quorum.image.topics.get(name)


def _as_configured(settings: "BrokerSettings", name: TopicName) -> NewTopic:
    if name == CONSUMER_OFFSETS:
        return NewTopic(
            name=name,
            partition_count=settings.integer("offsets.topic.num.partitions"),
            replication_factor=settings.integer("offsets.topic.replication.factor"),
            configs=(
                ("cleanup.policy", "compact"),
                ("segment.bytes", str(settings.integer("offsets.topic.segment.bytes"))),
                ("compression.type", "producer"),
            ),
        )
    if name == TRANSACTION_STATE:
        return NewTopic(
            name=name,
            partition_count=settings.integer("transaction.state.log.num.partitions"),
            replication_factor=settings.integer("transaction.state.log.replication.factor"),
            configs=(
                ("cleanup.policy", "compact"),
                ("segment.bytes", str(settings.integer("transaction.state.log.segment.bytes"))),
                ("min.insync.replicas", str(settings.integer("transaction.state.log.min.isr"))),
                ("compression.type", "uncompressed"),
                ("unclean.leader.election.enable", "false"),
            ),
        )
    if name == SHARE_GROUP_STATE:
        return NewTopic(
            name=name,
            partition_count=settings.integer("share.coordinator.state.topic.num.partitions"),
            replication_factor=settings.integer("share.coordinator.state.topic.replication.factor"),
            configs=(
                ("cleanup.policy", "delete"),
                ("retention.ms", "-1"),
                ("segment.bytes", str(settings.integer("share.coordinator.state.topic.segment.bytes"))),
                ("min.insync.replicas", str(settings.integer("share.coordinator.state.topic.min.isr"))),
                ("compression.type", "producer"),
            ),
        )
    if name == AUDIT:
        return NewTopic(
            name=name,
            partition_count=1,
            replication_factor=settings.integer("offsets.topic.replication.factor"),
            configs=(("cleanup.policy", "delete"), ("message.timestamp.type", "CreateTime")),
        )
    return NewTopic(name=name)
