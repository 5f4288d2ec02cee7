"""Creation of topics by this broker: by request, automatically, and of internal topics.

Goes to controller/topics.py. Topics that are created automatically because a client asks for them get
the broker's defaults; internal topics get the settings of their coordinators.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.client.interfaces import PeerUnavailable
from penstock.config.settings import topic_settings
from penstock.controller.topics import CreationRules, NewTopic, decide_create
from penstock.handlers.support.entities import int16, int32, topic_name
from penstock.model.errors import Refusal
from penstock.model.ids import TopicName
from penstock.model.topic import AUDIT, CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreateTopicsRequest

    from penstock.config.settings import BrokerSettings
    from penstock.handlers.support.context import Context
    from penstock.metadata.image import TopicImage


def creation_rules(context: "Context") -> CreationRules:
    settings = context.settings
    return CreationRules(
        partition_count=settings.integer("num.partitions"),
        replication_factor=settings.integer("default.replication.factor"),
        check_configs=lambda overrides: topic_settings(settings, overrides),
        new_id=context.entropy.uuid,
        random=context.entropy.stream("placement"),
    )


async def create_automatically(context: "Context", names: Sequence[TopicName]) -> None:
    """Create topics that a Metadata request names; those that cannot be created stay missing."""
    topics = [_as_configured(context.settings, name) for name in names]
    if context.relay.is_needed:
        with suppress(PeerUnavailable):
            await context.relay.ask(ApiKey.CREATE_TOPICS, _request(topics))
    else:
        rules = creation_rules(context)
        await context.controller.run(lambda image: decide_create(image, topics, rules))
    await context.replicas.settled()


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
