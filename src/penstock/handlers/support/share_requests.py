"""Checks and conversions that the handlers of share groups have in common.

Refuses: UnsupportedVersion, InvalidRequest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import present
from penstock.handlers.support.partition_errors import not_hosted
from penstock.model.acl import Operation
from penstock.model.errors import (
    GroupAuthorizationFailed,
    InvalidRequest,
    NotLeaderOrFollower,
    Refusal,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from penstock.shares.commands import StateReply
from penstock.shares.configured import SHARE_VERSION
from penstock.shares.states import AcknowledgementBatch, AcknowledgeType, SharePartitionKey

MEMBER_ID_LENGTH_MAX: Final = 36
RENEW_FROM: Final = 2
"""The first version of ShareFetch and ShareAcknowledge with RENEW (KIP-1222)."""

PartitionId = tuple[UUID, int]
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


def acknowledgements(topics: Iterable[Any]) -> dict[PartitionId, Sequence[Any]]:
    """Return the acknowledgement batches of a request by partition."""
    return {
        (present(topic.topic_id), partition.partition_index): partition.acknowledgement_batches
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def read_batches(batches: Sequence[Any], *, version: int, is_renewal: bool) -> list[AcknowledgementBatch]:
    """Return the batches of one partition, checked as in Kafka; raise InvalidRequest."""
    most = AcknowledgeType.RENEW if version >= RENEW_FROM else AcknowledgeType.REJECT
    read: list[AcknowledgementBatch] = []
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        is_valid = (
            previous <= first <= last
            and types
            and (len(types) == 1 or last - first == len(types) - 1)
            and all(AcknowledgeType.GAP <= kind <= most for kind in types)
            and (is_renewal or AcknowledgeType.RENEW not in types)
        )
        if not is_valid:
            raise InvalidRequest
        previous = last
        read.append(AcknowledgementBatch(first, last, tuple(types)))
    return read


def check_read(context: Context, request: Request, topic_id: UUID) -> None:
    """Raise TopicAuthorizationFailed if the client may not read a topic; an unknown id is answered as unknown."""
    if request.rights is not None:
        topic = context.quorum.image.topics_by_id.get(topic_id)
        if topic is not None and not request.may_on_topic(Operation.READ, topic.name):
            raise TopicAuthorizationFailed


def acknowledge(
    context: Context,
    request: Request,
    group: str,
    member: str,
    requested: Mapping[PartitionId, Sequence[Any]],
    *,
    is_renewal: bool,
) -> "asyncio.Future[dict[PartitionId, Refusal | None]]":
    """Acknowledge the records of several partitions; the result has the error of each, or None.

    Everything is decided before this returns, so that a fetch in the same request comes after it.
    """
    version = request.header.version
    results: dict[PartitionId, Refusal | None] = {}
    writes: dict[PartitionId, Awaitable[None]] = {}
    for partition, batches in requested.items():
        results[partition] = None
        try:
            check_read(context, request, partition[0])
            read = read_batches(batches, version=version, is_renewal=is_renewal)
            led = context.shares.leader.find(SharePartitionKey(group, *partition))
            if led is None:
                raise why_not_led(context, partition)
            write = led.acknowledge(member, read)
        except Refusal as refusal:
            results[partition] = refusal
        else:
            if write is not None:
                writes[partition] = write
    return asyncio.ensure_future(_written(results, writes))


async def _written(
    results: dict[PartitionId, Refusal | None], writes: Mapping[PartitionId, Awaitable[None]]
) -> dict[PartitionId, Refusal | None]:
    errors = await asyncio.gather(*writes.values(), return_exceptions=True)
    for partition, error in zip(writes, errors, strict=True):
        if isinstance(error, Refusal):
            results[partition] = error
        elif error is not None:
            raise error
    return results


def why_not_led(context: Context, partition: PartitionId) -> Refusal:
    """Return the error for a partition that is not served here, or has no records in flight."""
    topic_id, index = partition
    topic = context.replicas.by_id.get(topic_id.bytes)
    hosted = None if topic is None else topic.partitions.get(index)
    if hosted is None:
        return not_hosted(context, topic_id.bytes, index, by_id=True)
    return UnknownTopicOrPartition() if hosted.is_leader else NotLeaderOrFollower()
