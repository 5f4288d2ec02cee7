"""Metadata, versions 0-13: brokers, topics and leaders, as the client's listener shows them.

Topics: null asks for all, an empty list for none (v0 cannot say null: its empty list is all, which
the codec has already turned into null). From v12 a topic can be named by id; if any is, names are
ignored, as in Kafka. v0-3 always allow a missing topic to be created, later versions by a flag; a
topic made that way is in the very answer, with its leader. v6 tells LISTENER_NOT_FOUND apart from
LEADER_NOT_AVAILABLE; v0 reports replicas that are out of reach, later versions list them as offline.
Goes to handlers/creation.py for missing topics. Refuses: per topic, UNKNOWN_TOPIC_OR_PARTITION,
UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION; ids before v12: INVALID_REQUEST.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from penstock.handlers.cluster_view import controller_for_clients, is_reachable, offline_replicas, reachable_brokers
from penstock.handlers.context import Context, Request
from penstock.handlers.creation import create_by_themselves
from penstock.handlers.entities import NO_ERROR, NO_THROTTLE, TOPIC_OPERATIONS, int32, node, nodes, topic_name
from penstock.metadata.image import Image, PartitionImage, TopicImage
from penstock.model.errors import Refusal
from penstock.model.ids import NO_NODE, NodeId, TopicName
from penstock.model.topic import is_internal, name_problem

NAMES_MISSING_LISTENERS_FROM: Final = 6
IDS_FROM: Final = 12
OPERATIONS_UNKNOWN: Final = int32(-(2**31))


async def handle(context: Context, request: Request) -> MetadataResponse:
    body: MetadataRequest = request.body
    version = request.header.version
    if body.topics and version < IDS_FROM and any(topic.name is None or topic.topic_id for topic in body.topics):
        return _refused(body)
    names, unknown_ids = _asked_for(context.quorum.image, body)
    if names is not None and body.allow_auto_topic_creation and context.settings.flag("auto.create.topics.enable"):
        await _create_missing(context, names)
    # Taken after the creation: what was made a moment ago is in this answer.
    view = _View(context.quorum.image, request.listener, version, body.include_topic_authorized_operations)
    topics = [_unknown_id(topic_id) for topic_id in unknown_ids]
    if names is None:
        topics.extend(view.topic(topic) for topic in view.image.topics.values())
    else:
        topics.extend(view.named(name) for name in names)
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=tuple(
            MetadataResponseBroker(
                node_id=node(broker.node_id), host=end_point.host, port=int32(end_point.port), rack=broker.rack
            )
            for broker, end_point in reachable_brokers(view.image, request.listener)
        ),
        cluster_id=context.cluster_id,
        controller_id=node(controller_for_clients(view.image, context.node_id, request.listener)),
        topics=tuple(topics),
        error_code=NO_ERROR,
    )


def _asked_for(image: Image, body: MetadataRequest) -> tuple[list[TopicName] | None, list[UUID]]:
    """The names that are asked for, None for all there are, and the ids that no topic has."""
    if body.topics is None:
        return None, []
    ids = dict.fromkeys(topic.topic_id for topic in body.topics if topic.topic_id is not None)
    if not ids:
        return list(dict.fromkeys(TopicName(topic.name or "") for topic in body.topics)), []
    names = []
    unknown = []
    for topic_id in ids:
        known = image.topics_by_id.get(topic_id)
        if known is None:
            unknown.append(topic_id)
        else:
            names.append(known.name)
    return names, unknown


async def _create_missing(context: Context, names: Iterable[TopicName]) -> None:
    """Create what can be; what cannot is simply not there afterwards."""
    image = context.quorum.image
    missing = [name for name in names if name not in image.topics and name_problem(name) is None]
    if missing:
        with suppress(Refusal):
            await create_by_themselves(context, missing)


class _View:
    """The image as one request sees it."""

    def __init__(self, image: Image, listener: str, version: int, with_operations: bool) -> None:
        self.image = image
        self._listener = listener
        self._version = version
        self._operations = TOPIC_OPERATIONS if with_operations else OPERATIONS_UNKNOWN
        self._reachable = {node_id for node_id in image.brokers if is_reachable(image, node_id, listener)}

    def named(self, name: TopicName) -> MetadataResponseTopic:
        topic = self.image.topics.get(name)
        if topic is not None:
            return self.topic(topic)
        return MetadataResponseTopic(
            error_code=(
                ErrorCode.unknown_topic_or_partition
                if name_problem(name) is None
                else ErrorCode.invalid_topic_exception
            ),
            name=topic_name(name),
            topic_id=None,
            is_internal=is_internal(name),
            partitions=(),
            topic_authorized_operations=self._operations,
        )

    def topic(self, topic: TopicImage) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=NO_ERROR,
            name=topic_name(topic.name),
            topic_id=topic.id,
            is_internal=is_internal(topic.name),
            partitions=tuple(self._partition(index, partition) for index, partition in enumerate(topic.partitions)),
            topic_authorized_operations=self._operations,
        )

    def _partition(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        reachable = self._reachable
        replicas, in_sync = partition.replicas, partition.isr
        if self._version == 0:
            replicas = tuple(node_id for node_id in replicas if node_id in reachable)
            in_sync = tuple(node_id for node_id in in_sync if node_id in reachable)
        leader, error = partition.leader, NO_ERROR
        if leader not in reachable:
            leader, error = NO_NODE, self._why_leaderless(leader)
        elif len(replicas) < len(partition.replicas) or len(in_sync) < len(partition.isr):
            error = ErrorCode.replica_not_available
        all_there = reachable.issuperset(partition.replicas)
        return MetadataResponsePartition(
            error_code=error,
            partition_index=int32(index),
            leader_id=node(leader),
            leader_epoch=int32(partition.leader_epoch),
            replica_nodes=nodes(replicas),
            isr_nodes=nodes(in_sync),
            offline_replicas=() if all_there else nodes(offline_replicas(self.image, partition, self._listener)),
        )

    def _why_leaderless(self, leader: NodeId) -> ErrorCode:
        broker = self.image.brokers.get(leader)
        if broker is None or broker.fenced or self._version < NAMES_MISSING_LISTENERS_FROM:
            return ErrorCode.leader_not_available
        return ErrorCode.listener_not_found


def _unknown_id(topic_id: UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.unknown_topic_id, name=None, topic_id=topic_id, is_internal=False, partitions=()
    )


def _refused(body: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(),
        topics=tuple(
            MetadataResponseTopic(
                error_code=ErrorCode.invalid_request,
                name=topic_name(topic.name or ""),
                topic_id=topic.topic_id,
                partitions=(),
            )
            for topic in body.topics or ()
        ),
        error_code=ErrorCode.invalid_request,
    )
