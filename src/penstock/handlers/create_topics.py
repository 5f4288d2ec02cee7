"""CreateTopics, versions 2-7.

-1 as partition count or replication factor means the broker's default, also before v4, whose
specification does not include it. v5 adds the topic's settings and their sources to the response, v7 its id. A
topic that occurs twice in the request is refused once. Nothing is created if the timeout is zero or less.
When the response is sent, the topic is in the image and its logs exist, so that a record sent the next
moment is kept. Goes to controller/topics.py. Refuses: per topic, with the controller's error, from
v6 on THROTTLING_QUOTA_EXCEEDED too (KIP-599);
the whole request, POLICY_VIOLATION for too many partitions and REQUEST_TIMED_OUT.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse

from penstock.config.describe import Described, describe_topic
from penstock.config.settings import Source
from penstock.config.topic import TOPIC
from penstock.controller.topics import CreatedTopic, NewTopic, RefusedTopic, deciding_create
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.deadline import within
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int8, int16, int32, topic_name
from penstock.handlers.support.throttled import STRICT_CREATE_TOPICS_FROM, Mutations
from penstock.handlers.support.topic_creation import creation_rules
from penstock.model.acl import Operation
from penstock.model.errors import (
    InvalidRequest,
    Refusal,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    TopicAuthorizationFailed,
)
from penstock.model.ids import NodeId, PartitionIndex, TopicName
from penstock.model.topic import CLUSTER_METADATA
from penstock.scheduling.scheduler import SLICE_COST

if TYPE_CHECKING:
    from penstock.config.settings import BrokerSettings

SETTINGS_FROM: Final = 5
DESCRIPTION_COST: Final = SLICE_COST // 2
"""The cost of describing the settings of a topic, which takes half a millisecond."""


async def handle(context: Context, request: Request) -> CreateTopicsResponse:
    body: CreateTopicsRequest = request.body
    counts = Counter(str(topic.name) for topic in body.topics)
    denied = _denied(request, counts)
    topics = [
        _command(topic)
        for topic in body.topics
        if counts[topic.name] == 1 and str(topic.name) != CLUSTER_METADATA and str(topic.name) not in denied
    ]
    rules = creation_rules(context)
    charge = Mutations(context, request, strict_from=STRICT_CREATE_TOPICS_FROM).charge
    try:
        outcomes = await within(
            context.clock,
            body.timeout,
            context.controller.run(
                lambda image: deciding_create(image, topics, rules, validate_only=body.validate_only, charge=charge)
            ),
        )
        # A client that learns of a topic may write to it immediately, even with acks=0.
        await context.replicas.settled()
    except RequestTimedOut as refusal:
        return _refused(counts, refusal, None)
    except Refusal as refusal:
        return _refused(counts, refusal, refusal.message)
    described = await _described(context, request, outcomes)
    results = [
        _created(outcome, described.get(_key(outcome.configs), ()), sees_configs=_sees_configs(request, outcome.name))
        if isinstance(outcome, CreatedTopic)
        else _failed(outcome.name, outcome.refusal, _message(outcome.refusal))
        for outcome in outcomes
    ]
    results.extend(_failed(bad.name, bad.refusal, bad.refusal.message) for bad in _refused_before_creation(counts))
    results.extend(_failed(name, TopicAuthorizationFailed(), "Authorization failed.") for name in denied)
    return CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(results))


def _denied(request: Request, counts: "Counter[str]") -> list[str]:
    """Return the topics that the client may not create."""
    single = (name for name, count in counts.items() if count == 1 and name != CLUSTER_METADATA)
    names = request.topics_beyond_cluster(Operation.CREATE, single)
    return [name for name in names if not request.may_on_topic(Operation.CREATE, name)]


def _sees_configs(request: Request, name: str) -> bool:
    return request.may_on_topic(Operation.DESCRIBE_CONFIGS, name, is_asked=False)


def _command(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=TopicName(topic.name),
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            (PartitionIndex(assignment.partition_index), tuple(map(NodeId, assignment.broker_ids)))
            for assignment in topic.assignments
        ),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


def _refused_before_creation(counts: "Counter[str]") -> list[RefusedTopic]:
    refused = []
    for name, count in counts.items():
        if count > 1:
            refused.append(RefusedTopic(name=TopicName(name), refusal=InvalidRequest("Duplicate topic name.")))
        elif name == CLUSTER_METADATA:
            why = InvalidRequest(f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")
            refused.append(RefusedTopic(name=TopicName(name), refusal=why))
    return refused


def _key(configs: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(configs.items())


async def _described(
    context: Context, request: Request, outcomes: Iterable[CreatedTopic | RefusedTopic]
) -> dict[frozenset[tuple[str, str]], tuple[CreatableTopicConfigs, ...]]:
    """Return the settings of the created topics by their configs: most topics of a request have the same configs."""
    if request.header.version < SETTINGS_FROM:
        return {}
    different = {_key(outcome.configs): outcome.configs for outcome in outcomes if isinstance(outcome, CreatedTopic)}
    return {
        key: _describe(context.settings, configs)
        async for key, configs in request.pace.each(different.items(), cost=DESCRIPTION_COST)
    }


def _describe(settings: "BrokerSettings", configs: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
    return tuple(
        CreatableTopicConfigs(
            name=config.name,
            value=config.value,
            read_only=config.read_only,
            config_source=int8(_source(settings, config)),
            is_sensitive=config.sensitive,
        )
        for config in sorted(describe_topic(settings, configs))
    )


def _created(
    topic: CreatedTopic, configs: tuple[CreatableTopicConfigs, ...], *, sees_configs: bool
) -> CreatableTopicResult:
    if not sees_configs:
        return CreatableTopicResult(
            name=topic_name(topic.name),
            topic_id=topic.id,
            error_code=NO_ERROR,
            error_message=None,
            topic_config_error_code=int16(TopicAuthorizationFailed.code),
            configs=(),
        )
    return CreatableTopicResult(
        name=topic_name(topic.name),
        topic_id=topic.id,
        error_code=NO_ERROR,
        error_message=None,
        num_partitions=int32(topic.partition_count),
        replication_factor=int16(topic.replication_factor),
        configs=configs,
    )


def _source(settings: "BrokerSettings", config: Described) -> Source:
    """Return the source of a value. Unlike DescribeConfigs, this API counts synonyms."""
    option = TOPIC[config.name]
    if config.source is Source.DEFAULT and option.at_broker:
        sources = (settings.source(name) for name in (option.name, *option.fallbacks))
        return next((source for source in sources if source is not Source.DEFAULT), Source.DEFAULT)
    return config.source


def _message(refusal: Refusal) -> str | None:
    """Return why a topic was refused, or None for a quota: Kafka sends only the code."""
    return None if isinstance(refusal, ThrottlingQuotaExceeded) else refusal.message


def _failed(name: str, refusal: Refusal, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic_name(name), topic_id=None, error_code=failed(refusal), error_message=message, configs=()
    )


def _refused(names: "Counter[str]", refusal: Refusal, message: str | None) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        throttle_time=NO_THROTTLE, topics=tuple(_failed(name, refusal, message) for name in names)
    )
