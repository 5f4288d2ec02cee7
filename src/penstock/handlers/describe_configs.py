"""DescribeConfigs, versions 1-4.

Returns every option of each resource with its value and source; an empty or null list of
keys means all. v1 adds optional synonyms, v3 the type and the optional documentation.
Passwords are never returned. Resources: topics, this broker ("" stands for the cluster-wide defaults), its
loggers, groups and client metrics subscriptions. A group or subscription without settings
has the defaults. Reads the image and config/describe.py. Refuses, per resource:
INVALID_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST.
"""

from collections.abc import Collection
from typing import Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from penstock.config.describe import (
    Described,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from penstock.config.loggers import level_of, logger_names
from penstock.config.settings import Source
from penstock.handlers.support.config_rights import check_config_right
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int8
from penstock.metadata import image as resources
from penstock.metadata.image import ConfigResource
from penstock.model.acl import Operation
from penstock.model.errors import InvalidRequest, Refusal, UnknownTopicOrPartition
from penstock.model.ids import NodeId, node_id_of
from penstock.model.topic import check_name
from penstock.scheduling.scheduler import SLICE_COST

DESCRIPTION_COST: Final = SLICE_COST // 2
"""The cost of describing all settings of a broker, which takes more than a millisecond."""
UNKNOWN_TYPE = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


async def handle(context: Context, request: Request) -> DescribeConfigsResponse:
    body: DescribeConfigsRequest = request.body
    return DescribeConfigsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            [
                _answer(context, request, resource, synonyms=body.include_synonyms, doc=body.include_documentation)
                async for resource in request.pace.each(body.resources, cost=DESCRIPTION_COST)
            ]
        ),
    )


def _answer(
    context: Context, request: Request, resource: DescribeConfigsResource, *, synonyms: bool, doc: bool
) -> DescribeConfigsResult:
    try:
        check_config_right(request, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
        described = _describe(context, resource)
    except Refusal as refusal:
        return DescribeConfigsResult(
            error_code=failed(refusal),
            # Kafka sends no message for an unknown topic.
            error_message="" if isinstance(refusal, UnknownTopicOrPartition) else refusal.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
    return DescribeConfigsResult(
        error_code=NO_ERROR,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_entity(option, synonyms=synonyms, doc=doc) for option in described),
    )


def _describe(context: Context, resource: DescribeConfigsResource) -> list[Described]:
    kind, name, names = resource.resource_type, resource.resource_name, resource.configuration_keys
    image = context.quorum.image
    if kind == resources.TOPIC:
        topic = check_name(name)
        if topic not in image.topics:
            raise UnknownTopicOrPartition
        return describe_topic(context.settings, image.topic_config(topic), names)
    if kind == resources.BROKER:
        if not name:
            return describe_all_brokers(image.config(ConfigResource(kind, name)), names)
        _check_broker_id(name, context.node_id, expected=f"{context.node_id} or empty string,")
        return describe_broker(context.settings, names)
    if kind == resources.BROKER_LOGGER:
        if not name:
            raise InvalidRequest("Broker id must not be empty")
        _check_broker_id(name, context.node_id, expected=str(context.node_id))
        return _describe_loggers(names)
    if kind == resources.CLIENT_METRICS:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return describe_client_metrics(image.config(ConfigResource(kind, name)), names)
    if kind == resources.GROUP:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return describe_group(context.settings, image.config(ConfigResource(kind, name)), names)
    raise InvalidRequest(UNKNOWN_TYPE)


def _check_broker_id(name: str, node_id: NodeId, *, expected: str) -> None:
    requested = node_id_of(name)
    if requested is None:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}")
    if requested != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {expected} but received {name}")


def _describe_loggers(names: Collection[str] | None) -> list[Described]:
    return [
        Described(name, level_of(name), False, Source.DYNAMIC_BROKER_LOGGER, False, 0, [], "")
        for name in logger_names()
        if not names or name in names
    ]


def _entity(option: Described, *, synonyms: bool, doc: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=option.name,
        value=option.value,
        read_only=option.read_only,
        config_source=int8(option.source),
        is_sensitive=option.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=int8(synonym.source))
            for synonym in option.synonyms
        )
        if synonyms
        else (),
        config_type=int8(option.kind_code),
        documentation=option.doc if doc or not option.doc else None,
    )
