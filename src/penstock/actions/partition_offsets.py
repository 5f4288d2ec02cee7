"""The ends of partition logs and offsets by time, through librdkafka's admin client."""

from collections.abc import Collection
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from penstock.actions.connection import REQUEST_TIMEOUT_S
from penstock.actions.errors import ActionError
from penstock.actions.librdkafka import wait

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TopicPartition = tuple[str, int]


def earliest_offsets(admin: "AdminClient", partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    from confluent_kafka.admin import OffsetSpec

    return _ends(admin, partitions, OffsetSpec.earliest())


def latest_offsets(admin: "AdminClient", partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    from confluent_kafka.admin import OffsetSpec

    return _ends(admin, partitions, OffsetSpec.latest())


def first_offsets_since(
    admin: "AdminClient", partitions: Collection[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int | None]:
    """Return the first offset at or after a time in each partition; None if no record is that new.

    Raises ActionError if a leader does not answer: its partition may have such records.
    """
    from confluent_kafka.admin import OffsetSpec

    found: dict[TopicPartition, int | None] = {}
    for (topic, index), future in _requested(admin, partitions, OffsetSpec.for_timestamp(timestamp_ms)).items():
        offset = wait(future, about=f"{topic}-{index}").offset
        found[topic, index] = offset if offset >= 0 else None
    return found


def _ends(admin: "AdminClient", partitions: Collection[TopicPartition], spec: Any) -> dict[TopicPartition, int | None]:
    """Return one end of each partition's log; None if its leader does not answer."""
    found: dict[TopicPartition, int | None] = {}
    for (topic, index), future in _requested(admin, partitions, spec).items():
        try:
            found[topic, index] = wait(future, about=f"{topic}-{index}").offset
        except ActionError:
            # A deleted or leaderless partition keeps its row, with an empty field.
            found[topic, index] = None
    return found


def _requested(
    admin: "AdminClient", partitions: Collection[TopicPartition], spec: Any
) -> dict[TopicPartition, "Future[Any]"]:
    from confluent_kafka import TopicPartition as KafkaTopicPartition

    if not partitions:
        return {}
    requested = {KafkaTopicPartition(*partition): spec for partition in partitions}
    futures = admin.list_offsets(requested, request_timeout=REQUEST_TIMEOUT_S)
    return {(entry.topic, entry.partition): future for entry, future in futures.items()}
