"""The ends of partition logs and offsets by time, through librdkafka's admin client."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from penstock.actions.connection import REQUEST_TIMEOUT_S
from penstock.actions.errors import ActionError
from penstock.actions.librdkafka import wait

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TopicPartition = tuple[str, int]


def log_offsets(
    admin: "AdminClient", partitions: Collection[TopicPartition], spec: Any
) -> dict[TopicPartition, int | None]:
    """Return one offset of each partition; None if it has no such offset or its leader does not answer."""
    from confluent_kafka import TopicPartition as KafkaTopicPartition

    if not partitions:
        return {}
    requested = {KafkaTopicPartition(*partition): spec for partition in partitions}
    found: dict[TopicPartition, int | None] = {}
    for entry, future in admin.list_offsets(requested, request_timeout=REQUEST_TIMEOUT_S).items():
        try:
            offset = wait(future, about=f"{entry.topic}-{entry.partition}").offset
        except ActionError:
            # A deleted or leaderless partition keeps its row, with an empty field.
            found[entry.topic, entry.partition] = None
        else:
            found[entry.topic, entry.partition] = offset if offset >= 0 else None
    return found


def earliest_offsets(admin: "AdminClient", partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    from confluent_kafka.admin import OffsetSpec

    return log_offsets(admin, partitions, OffsetSpec.earliest())


def latest_offsets(admin: "AdminClient", partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
    from confluent_kafka.admin import OffsetSpec

    return log_offsets(admin, partitions, OffsetSpec.latest())
