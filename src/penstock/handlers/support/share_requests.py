"""Checks and conversions that the handlers of share groups have in common.

Refuses: UnsupportedVersion, InvalidRequest, MalformedRequest.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from penstock.handlers.support.context import Context
from penstock.handlers.support.entities import present
from penstock.handlers.support.partition_errors import not_hosted
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import (
    GroupAuthorizationFailed,
    InvalidRequest,
    NotLeaderOrFollower,
    Refusal,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from penstock.model.ids import TopicIdPartition
from penstock.security.rights import Rights
from penstock.shares.commands import StateReply
from penstock.shares.configured import SHARE_VERSION
from penstock.shares.sessions import PARTITION_COUNT_MAX
from penstock.shares.states import AcknowledgementBatch, AcknowledgeType, SharePartitionKey
from penstock.wire.frame import Header, MalformedRequest
from penstock.wire.hot.share_fetch import AcknowledgedBatch

MEMBER_ID_LENGTH_MAX: Final = 36
BATCH_COUNT_MAX: Final = 50_000
TYPE_COUNT_MAX: Final = 1_000_000
"""Acknowledgements are checked in one step, and a frame has room for millions; clients hold thousands of records."""
RENEW_FROM: Final = 2
"""The first version of ShareFetch and ShareAcknowledge with RENEW (KIP-1222)."""

_RENEW = AcknowledgeType.RENEW
_ACCEPTED: Final = (AcknowledgeType.ACCEPT.value,)
TopicResult = TypeVar("TopicResult")


def message_of(refusal: Refusal) -> str | None:
    """Return the message of a response: none for a denial, as in Kafka."""
    is_denial = isinstance(refusal, GroupAuthorizationFailed | TopicAuthorizationFailed)
    return None if is_denial else refusal.message


def check_enabled(context: Context) -> None:
    if context.quorum.image.features.get(SHARE_VERSION, 0) < 1:
        raise UnsupportedVersion


async def ask_for_each(
    context: Context,
    body: Any,
    command: Callable[[SharePartitionKey, Any], object],
    result: Callable[[int, StateReply], Any],
    topic_result: Callable[..., TopicResult],
) -> tuple[TopicResult, ...]:
    """Send a command to the share coordinator for each partition of a request; return the results by topic."""
    results = []
    for topic in body.topics:
        partitions = []
        for partition in topic.partitions:
            key = SharePartitionKey(body.group_id, present(topic.topic_id), partition.partition)
            reply = await context.shares.coordinator.ask(key, command(key, partition))
            partitions.append(result(partition.partition, reply))
        results.append(topic_result(topic_id=topic.topic_id, partitions=tuple(partitions)))
    return tuple(results)


def check_member(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """Return both ids if they are valid."""
    if not group_id:
        raise InvalidRequest("Invalid group id in the request.")
    if not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        raise InvalidRequest("Invalid member id in the request.")
    return group_id, member_id


def check_length(topics: Iterable[Any], forgotten: Iterable[Any] = ()) -> None:
    """Raise MalformedRequest for a request that takes long to handle and that no real client sends."""
    partition_count = sum(1 + len(topic.partitions) for topic in forgotten)
    batch_count = type_count = 0
    for topic in topics:
        partition_count += 1 + len(topic.partitions)
        if partition_count > PARTITION_COUNT_MAX:
            break
        for partition in topic.partitions:
            batch_count += len(partition.acknowledgement_batches)
            if batch_count > BATCH_COUNT_MAX:
                break
            type_count += sum(len(batch.acknowledge_types) for batch in partition.acknowledgement_batches)
    if partition_count > PARTITION_COUNT_MAX or batch_count > BATCH_COUNT_MAX or type_count > TYPE_COUNT_MAX:
        raise MalformedRequest("the request names too many share partitions, or acknowledges too many records")


def acknowledgements(topics: Iterable[Any]) -> dict[TopicIdPartition, tuple[AcknowledgedBatch, ...]]:
    """Return the acknowledgement batches of a request by partition."""
    return {
        TopicIdPartition(present(topic.topic_id).bytes, partition.partition_index): tuple(
            (batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types))
            for batch in partition.acknowledgement_batches
        )
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def read_batches(batches: Iterable[AcknowledgedBatch], *, version: int, is_renewal: bool) -> list[AcknowledgementBatch]:
    """Return the batches of one partition, checked as in Kafka; raise InvalidRequest."""
    most = _RENEW if version >= RENEW_FROM and is_renewal else _RENEW - 1
    read: list[AcknowledgementBatch] = []
    previous = -1
    for first, last, types in batches:
        if not previous <= first <= last or not (types == _ACCEPTED or _are_valid(types, last - first + 1, most)):
            raise InvalidRequest
        previous = last
        read.append(AcknowledgementBatch(first, last, types))
    return read


def _are_valid(types: tuple[int, ...], count: int, most: int) -> bool:
    return len(types) in (1, count) and min(types) >= 0 and max(types) <= most


def check_read(context: Context, header: Header, topic_id: bytes) -> None:
    """Raise TopicAuthorizationFailed if the client may not read a topic; an unknown id is answered as unknown."""
    rights: Rights | None = header.rights
    if rights is not None:
        topic = context.quorum.image.topics_by_id.get(UUID(bytes=topic_id))
        if topic is not None and not rights.allows(
            Operation.READ, ResourceType.TOPIC, topic.name, api_key=header.api_key
        ):
            raise TopicAuthorizationFailed


class Outcomes:
    """The outcomes of the acknowledgements in one request: for each partition its error, or None."""

    __slots__ = ("on_written", "pending", "results")

    def __init__(self) -> None:
        self.results: dict[TopicIdPartition, Refusal | None] = {}
        self.pending = 0
        """The number of writes that have not ended."""
        self.on_written: Callable[[], None] | None = None
        """Called when the last one is written."""

    def begin(self) -> None:
        """Wait for one more write."""
        self.pending += 1

    def written(self, partition: TopicIdPartition, error: Refusal | None) -> None:
        self.results[partition] = error
        self.pending -= 1
        if not self.pending and self.on_written is not None:
            # The callback refers to the request, which refers to this: without it, no garbage collection is needed.
            on_written, self.on_written = self.on_written, None
            on_written()

    async def wait(self) -> dict[TopicIdPartition, Refusal | None]:
        """Wait until all are written; return the errors."""
        if self.pending:
            all_written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.on_written = lambda: None if all_written.done() else all_written.set_result(None)
            await all_written
        return self.results


def acknowledge(
    context: Context,
    header: Header,
    group: str,
    member: str,
    requested: Iterable[tuple[TopicIdPartition, Iterable[AcknowledgedBatch]]],
    *,
    is_renewal: bool,
) -> Outcomes:
    """Acknowledge the records of several partitions.

    Everything is decided before this returns, so that a fetch in the same request comes after it.
    """
    outcomes = Outcomes()
    for partition, batches in requested:
        error: Refusal | None = None
        try:
            check_read(context, header, partition.topic_id)
            read = read_batches(batches, version=header.version, is_renewal=is_renewal)
            led = context.shares.leader.find(group, partition)
            if led is None:
                raise why_not_led(context, partition)
            if led.acknowledge(member, read, partial(outcomes.written, partition)):
                outcomes.begin()
        except Refusal as refusal:
            error = refusal
        outcomes.results[partition] = error
    return outcomes


def why_not_led(context: Context, partition: TopicIdPartition) -> Refusal:
    """Return the error for a partition that is not served here, or has no records in flight."""
    topic_id, index = partition
    topic = context.replicas.by_id.get(topic_id)
    hosted = None if topic is None else topic.partitions.get(index)
    if hosted is None:
        return not_hosted(context, topic_id, index, by_id=True)
    return UnknownTopicOrPartition() if hosted.is_leader else NotLeaderOrFollower()
