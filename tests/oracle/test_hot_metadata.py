"""The Metadata responses that are built from cached topics, against kio, over every version.

The model below builds the expected response from entities; kio encodes them. One node answers
over several images in a row, so that an entry that is cached too long would show.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v10.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.serial import entity_reader, entity_writer

from penstock.handlers import metadata
from penstock.handlers.support.entities import CLUSTER_OPERATIONS, NO_THROTTLE, TOPIC_OPERATIONS
from penstock.metadata.image import BrokerImage, Image, PartitionImage, TopicImage
from penstock.metadata.records import BrokerEndpoint
from penstock.model.ids import LeaderEpoch, NodeId, TopicName
from penstock.model.topic import is_internal, name_problem
from penstock.wire import codec
from penstock.wire.api import ApiKey
from penstock.wire.frame import response_head
from penstock.wire.hot import metadata as hot
from tests.unit.handlers.fakes import FakeNode

CLUSTER_ID = "the-cluster"
SELF = NodeId(1)
UNKNOWN = -(2**31)
LISTENERS = ("PLAINTEXT", "OTHER")
NAMES = ("a", "b.c", "__consumer_offsets", "topic-" + "x" * 200, "nope", "bad name", "ünï", "")

int32 = st.integers(-(2**31), 2**31 - 1)
node_ids = st.integers(1, 4).map(NodeId)
node_lists = st.lists(node_ids, max_size=4, unique=True).map(tuple)
versions = st.integers(0, 13)
texts = st.text(st.characters(codec="utf-8"), max_size=12)


@st.composite
def brokers(draw: st.DrawFn) -> dict[NodeId, BrokerImage]:
    ids = draw(st.lists(node_ids, max_size=4, unique=True))
    return {
        node_id: BrokerImage(
            node_id=node_id,
            epoch=1,
            incarnation_id=UUID(int=node_id),
            end_points=tuple(
                BrokerEndpoint(name=name, host=draw(texts), port=draw(st.integers(0, 65535)), security_protocol=0)
                for name in draw(st.lists(st.sampled_from(LISTENERS), unique=True))
            ),
            rack=draw(st.none() | texts),
            fenced=draw(st.booleans()),
        )
        for node_id in ids
    }


partitions = st.builds(
    PartitionImage,
    leader=node_ids | st.just(NodeId(-1)),
    leader_epoch=int32.map(LeaderEpoch),
    replicas=node_lists,
    isr=node_lists,
)
topics = st.builds(
    TopicImage,
    name=st.sampled_from(NAMES[:4]).map(TopicName),
    id=st.integers(1, 6).map(lambda value: UUID(int=value)),
    partitions=st.lists(partitions, max_size=4).map(tuple) | partitions.map(lambda partition: (partition,) * 130),
)
topic_maps = st.lists(topics, max_size=4, unique_by=(lambda topic: topic.name, lambda topic: topic.id))


@st.composite
def images(draw: st.DrawFn) -> list[Image]:
    """Return successive images: each shares with the previous one what it does not change."""
    kept: dict[TopicName, TopicImage] = {}
    known = draw(brokers())
    made = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            known = draw(brokers())
        if draw(st.booleans()):
            changed = draw(topic_maps)
            ids = {topic.id for topic in changed}
            kept = {name: topic for name, topic in kept.items() if topic.id not in ids}
            kept |= {topic.name: topic for topic in changed}
        made.append(Image(topics=kept, topics_by_id={topic.id: topic for topic in kept.values()}, brokers=known))
    return made


requested_names = st.lists(st.sampled_from(NAMES), max_size=5).map(lambda names: [(name, None) for name in names])
requested_ids = st.lists(
    st.tuples(st.none() | st.sampled_from(NAMES), st.integers(1, 8).map(lambda value: UUID(int=value))),
    min_size=1,
    max_size=4,
)
requested = st.none() | requested_names | requested_ids


def driven(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that yields to others but waits for nothing."""
    try:
        while True:
            work.send(None)
    except StopIteration as end:
        return end.value


def response_of(
    node: FakeNode, version: int, listener: str, wanted: Any, *, operations: bool, cluster_operations: bool
) -> bytes:
    entity = MetadataRequest(
        topics=None if wanted is None else tuple(MetadataRequestTopic(name=name, topic_id=key) for name, key in wanted),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=cluster_operations,
    )
    body = codec.read_request(ApiKey.METADATA, version, codec.write_request(ApiKey.METADATA, version, entity))
    reply = driven(metadata.handle(node.context, node.request(ApiKey.METADATA, version, body, listener=listener)))
    return b"".join(cast("Sequence[bytes]", reply.parts))


def kio_frame(version: int, correlation_id: int, entity: MetadataResponse, cluster_operations: int) -> bytes:
    layout = load_response_schema(ApiKey.METADATA, version)
    own, _ = entity_reader(layout)(codec.write_response(ApiKey.METADATA, version, entity), 0)
    if 8 <= version <= 10:
        own = replace(own, cluster_authorized_operations=cluster_operations)
    buffer = BytesIO()
    entity_writer(layout)(buffer, own)
    body = buffer.getvalue()
    return response_head(ApiKey.METADATA, version, correlation_id, len(body)) + body


class Model:
    """The expected response, built from entities one at a time."""

    def __init__(self, image: Image, listener: str, version: int, operations: bool) -> None:
        self.image = image
        self.listener = listener
        self.version = version
        self.operations: Any = TOPIC_OPERATIONS if operations else UNKNOWN

    def reaches(self, node_id: int) -> bool:
        broker = self.image.brokers.get(NodeId(node_id))
        return broker is not None and not broker.fenced and broker.end_point(self.listener) is not None

    def response(self, wanted: Any) -> MetadataResponse:
        if wanted and self.version < 12 and any(name is None or key is not None for name, key in wanted):
            return self.refused(wanted)
        there = [broker for broker in self.image.brokers.values() if self.reaches(broker.node_id)]
        controller = SELF if self.reaches(SELF) else next((broker.node_id for broker in there), -1)
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=tuple(
                MetadataResponseBroker(
                    node_id=broker.node_id,  # type: ignore[arg-type]
                    host=end_point.host,
                    port=end_point.port,  # type: ignore[arg-type]
                    rack=broker.rack,
                )
                for broker in there
                if (end_point := broker.end_point(self.listener)) is not None
            ),
            cluster_id=CLUSTER_ID,
            controller_id=controller,  # type: ignore[arg-type]
            topics=tuple(self.topics(wanted)),
            error_code=ErrorCode.none,
        )

    def refused(self, wanted: Any) -> MetadataResponse:
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=(),
            topics=tuple(
                MetadataResponseTopic(
                    error_code=ErrorCode.invalid_request, name=name or cast(Any, ""), topic_id=key, partitions=()
                )
                for name, key in wanted
            ),
            error_code=ErrorCode.invalid_request,
        )

    def topics(self, wanted: Any) -> list[MetadataResponseTopic]:
        image = self.image
        if wanted is None or (not wanted and self.version == 0):
            return [self.topic(topic) for topic in image.topics.values()]
        ids = list(dict.fromkeys(key for _, key in wanted if key is not None))
        if not ids:
            return [self.named(name) for name in dict.fromkeys(name for name, _ in wanted)]
        unknown = [
            MetadataResponseTopic(error_code=ErrorCode.unknown_topic_id, name=None, topic_id=key, partitions=())
            for key in ids
            if key not in image.topics_by_id
        ]
        return unknown + [self.topic(image.topics_by_id[key]) for key in ids if key in image.topics_by_id]

    def named(self, name: str) -> MetadataResponseTopic:
        topic = self.image.topics.get(TopicName(name))
        if topic is not None:
            return self.topic(topic)
        legal = name_problem(name) is None
        return MetadataResponseTopic(
            error_code=ErrorCode.unknown_topic_or_partition if legal else ErrorCode.invalid_topic_exception,
            name=name,  # type: ignore[arg-type]
            topic_id=None,
            is_internal=is_internal(name),
            partitions=(),
            topic_authorized_operations=self.operations,
        )

    def topic(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=topic.name,  # type: ignore[arg-type]
            topic_id=topic.id,
            is_internal=is_internal(topic.name),
            partitions=tuple(self.partition(index, each) for index, each in enumerate(topic.partitions)),
            topic_authorized_operations=self.operations,
        )

    def partition(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        replicas: Any = partition.replicas
        in_sync: Any = partition.isr
        offline: Any = tuple(node_id for node_id in replicas if not self.reaches(node_id))
        if self.version == 0:
            replicas, in_sync = (tuple(filter(self.reaches, nodes)) for nodes in (replicas, in_sync))
        leader: Any = partition.leader if self.reaches(partition.leader) else -1
        if leader == -1:
            broker = self.image.brokers.get(partition.leader)
            elsewhere = broker is not None and not broker.fenced and self.version >= 6
            error = ErrorCode.listener_not_found if elsewhere else ErrorCode.leader_not_available
        elif (replicas, in_sync) != (partition.replicas, partition.isr):
            error = ErrorCode.replica_not_available
        else:
            error = ErrorCode.none
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,  # type: ignore[arg-type]
            leader_id=leader,
            leader_epoch=partition.leader_epoch,  # type: ignore[arg-type]
            replica_nodes=replicas,
            isr_nodes=in_sync,
            offline_replicas=offline,
        )


questions = st.lists(
    st.tuples(versions, st.sampled_from(LISTENERS), requested, st.booleans(), st.booleans()), min_size=1, max_size=4
)


@settings(max_examples=80)
@given(images(), questions)
def test_every_response_is_the_one_that_kio_writes(history: list[Image], requests: list[Any]) -> None:
    check_responses(history, requests)


@pytest.mark.slow
@settings(max_examples=500)
@given(images(), questions)
def test_many_responses_are_those_that_kio_writes(history: list[Image], requests: list[Any]) -> None:
    check_responses(history, requests)


def check_responses(history: list[Image], requests: list[Any]) -> None:
    node = FakeNode({"auto.create.topics.enable": "false"})
    for image in history:
        node.quorum.image = image
        for version, listener, wanted, operations, cluster_operations in requests:
            if version < 10 and wanted is not None:
                # Version 10 adds ids; until then a topic has only a name.
                wanted = [(name or "", None) for name, _ in wanted]
            if version in (10, 11) and wanted is not None:
                wanted = [(name or "", key) for name, key in wanted]
            if version == 0:
                wanted = wanted or []
            model = Model(image, listener, version, operations and version >= 8)
            expected = model.response(wanted)
            refused = expected.error_code is not ErrorCode.none
            cluster_bits = CLUSTER_OPERATIONS if cluster_operations and not refused else UNKNOWN
            frame = response_of(
                node, version, listener, wanted, operations=operations, cluster_operations=cluster_operations
            )
            assert frame == kio_frame(version, 1, expected, cluster_bits)


@given(versions, int32, st.integers(0, 2**31 - 1), int32, st.sampled_from([0, 129]), st.integers(0, 200))
def test_the_frame_around_the_topics_is_the_one_that_kio_writes(
    version: int, correlation_id: int, throttle_ms: int, cluster_operations: int, error_code: int, topic_count: int
) -> None:
    layout = load_response_schema(ApiKey.METADATA, version)
    topic = hot.pack_topic(version, 3, "t", None, is_internal=True, rows=())
    parts = hot.write_response(
        version,
        correlation_id,
        hot.pack_cluster(version, [(5, "h", 1, None)], None, 5),
        topic_count,
        [topic] * topic_count,
        throttle_ms=throttle_ms,
        cluster_operations=cluster_operations,
        error_code=error_code,
    )
    frame = b"".join(parts)
    head_size = 9 if version >= hot.FLEXIBLE_FROM else 8
    assert frame[:head_size] == response_head(ApiKey.METADATA, version, correlation_id, len(frame) - head_size)
    response: Any
    response, size = entity_reader(layout)(frame[head_size:], 0)
    assert size == len(frame) - head_size
    assert [(each.error_code, each.name) for each in response.topics] == [(3, "t")] * topic_count
    if version >= 3:
        assert response.throttle_time == timedelta(milliseconds=throttle_ms)
    if 8 <= version <= 10:
        assert response.cluster_authorized_operations == cluster_operations
    if version >= 13:
        assert response.error_code == error_code
