"""Nodes and requests that the tests of several handlers share."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1 import request as incremental

from penstock.controller.features import SUPPORTED
from penstock.handlers import create_topics, describe_configs, incremental_alter_configs
from penstock.handlers.support.context import Request
from penstock.handlers.support.entities import int8
from penstock.handlers.support.registry import COLD
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.quotas.limits import Spans, Table
from penstock.wire.api import APIS, ApiKey
from penstock.wire.codec import request_class
from penstock.wire.schema import shape_of
from tests.unit.controller.cluster import directory
from tests.unit.handlers.fakes import FakeLog, FakeNode, FakePartition

SOON: Any = timedelta(seconds=30)
ORDERS_ID = UUID(int=7)
SET, DELETE, APPEND = 0, 1, 2
TIMES = ((1000, 2, 0), (3000, 5, 3), (2000, 6, 3), (3000, 7, 3), (9000, 9, 3))
"""(timestamp, offset, leader epoch) of the records of `node_with_records`."""


# -- nodes -----------------------------------------------------------------------------------


def put_topic(node: FakeNode, name: str, count: int, *, topic_id: UUID | None = None, **changes: Any) -> UUID:
    """Add a topic to the metadata, with `count` partitions on broker 1."""
    topic_id = topic_id or UUID(int=900 + len(node.image.topics))
    fields: dict[str, Any] = {"replicas": (1,), "isr": (1,), "leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    node.quorum.put(
        [
            TopicRecord(name=name, topic_id=topic_id),
            *(PartitionRecord(partition_id=index, topic_id=topic_id, **fields | changes) for index in range(count)),
        ]
    )
    return topic_id


def node_with_orders(settings: dict[str, str] | None = None, *, partitions: int = 2) -> FakeNode:
    node = FakeNode(settings)
    put_topic(node, "orders", partitions, topic_id=ORDERS_ID)
    return node


def node_with_records() -> FakeNode:
    """Return a node whose partition a-0 has offsets 2-9, high watermark 9 and last stable offset 7."""
    node = FakeNode()
    log = FakeLog(start_offset=2, end_offset=10, times=TIMES)
    node.replicas.put(FakePartition("a", log=log, high_watermark=9, last_stable_offset=7))
    return node


def node_with_two_partitions() -> FakeNode:
    node = FakeNode()
    node.replicas.put(FakePartition("a", 0, FakeLog(end_offset=5, size=300), high_watermark=5))
    node.replicas.put(FakePartition("b", 1, FakeLog(end_offset=5, size=10), high_watermark=3))
    return node


def only_partition(node: FakeNode) -> PartitionImage:
    """Return t-0 of the fixture `node`."""
    return node.image.topics[TopicName("t")].partitions[0]


def topic_partition(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


class LimitedClient:
    """A client with a burst of ten partition changes, and one more each second."""

    def __init__(self) -> None:
        self.node = FakeNode()
        self.muted: list[float] = []
        table = Table({(("user", None),): {"controller_mutation_rate": 1.0}}, Spans(mutation_s=10))
        self.client = table.client(
            "u", "c", lambda api_key, seconds: self.muted.append(seconds), self.node.clock.monotonic()
        )

    def request(self, api_key: int, version: int, body: Any) -> Request:
        request = self.node.request(api_key, version, body)
        request.header.client = self.client
        return request

    async def create(self, name: str, count: int, *, version: int = 7) -> tuple[int, int]:
        """Return the error code and the throttle time of the reply."""
        body = CreateTopicsRequest(topics=(new_topic(name, count, 1),), timeout=SOON)
        request = self.request(ApiKey.CREATE_TOPICS, version, body)
        reply = await create_topics.handle(self.node.context, request)
        return reply.topics[0].error_code.value, request.header.throttle_ms


# -- requests --------------------------------------------------------------------------------


def body_of(api_key: int, version: int, **values: Any) -> Any:
    """Return a request body of any version: dictionaries become entities; fields that the version lacks are ignored."""
    return _entity(request_class(api_key, version), values)


def _entity(entity: type[Any], values: dict[str, Any]) -> Any:
    shape = shape_of(entity)
    fields = {}
    for field in (*shape.plain, *shape.tagged):
        value = values.get(field.name, field.default)
        if field.entity is not None and field.repeated and value is not None:
            value = tuple(_entity(field.entity, part) for part in value)
        fields[field.name] = value
    return entity(**fields)


async def ask_in_every_version(api_key: int, body: Any) -> list[Any]:
    node, api = FakeNode(), APIS[api_key]
    versions = range(api.min_version, api.max_version + 1)
    return [await node.ask(COLD[api_key], api_key, body, version=version) for version in versions]


def new_topic(name: str, count: int = -1, factor: int = -1, **configs: str | None) -> CreatableTopic:
    values: Any = {"name": name, "num_partitions": count, "replication_factor": factor}
    return CreatableTopic(
        **values,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()),
    )


async def create(node: FakeNode, *topics: CreatableTopic, version: int = 7, wait: Any = SOON, **options: Any) -> Any:
    body = CreateTopicsRequest(topics=topics, timeout=wait, **options)
    return (await node.ask(create_topics.handle, ApiKey.CREATE_TOPICS, body, version=version)).topics


async def describe_config(
    node: FakeNode, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = True, doc: bool = False
) -> Any:
    body = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(resource_type=int8(kind), resource_name=name, configuration_keys=keys or None),
        ),
        include_synonyms=synonyms,
        include_documentation=doc,
    )
    reply = await node.ask(describe_configs.handle, ApiKey.DESCRIBE_CONFIGS, body, version=version)
    (result,) = reply.results
    return result


async def alter_config(
    node: FakeNode, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    body = incremental.IncrementalAlterConfigsRequest(
        resources=(
            incremental.AlterConfigsResource(
                resource_type=int8(kind),
                resource_name=name,
                configs=tuple(
                    incremental.AlterableConfig(name=option, config_operation=int8(operation), value=value)
                    for option, operation, value in changes
                ),
            ),
        ),
        validate_only=validate_only,
    )
    reply = await node.ask(incremental_alter_configs.handle, ApiKey.INCREMENTAL_ALTER_CONFIGS, body)
    (result,) = reply.responses
    return result


def registration(node_id: int, **changes: Any) -> BrokerRegistrationRequest:
    fields: dict[str, Any] = {
        "broker_id": node_id,
        "cluster_id": "the-cluster",
        "incarnation_id": UUID(int=77),
        "listeners": (Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),  # type: ignore[arg-type]
        "features": tuple(
            Feature(name=name, min_supported_version=levels.least, max_supported_version=levels.most)  # type: ignore[arg-type]
            for name, levels in SUPPORTED.items()
        ),
        "rack": "r",
        "log_dirs": (directory(node_id),),
    }
    return BrokerRegistrationRequest(**(fields | changes))
