"""Topics: create, list, describe, delete and add partitions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.actions.connection import REQUEST_TIMEOUT_S
from penstock.actions.errors import ActionError, unknown_partition
from penstock.actions.librdkafka import wait, wait_all
from penstock.actions.partition_offsets import earliest_offsets, first_offsets_since, latest_offsets
from penstock.actions.positions import AtOffset, AtTime, Latest, Position

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Row = dict[str, Any]


class TopicDescription(NamedTuple):
    name: str
    topic_id: str
    partitions: list[Row]


def create_topics(
    admin: "AdminClient",
    names: Sequence[str],
    *,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    created: Callable[[str], None],
    exists: Callable[[str], None] | None = None,
    validate_only: bool = False,
) -> None:
    """Create topics; `created` is called with each name. With `exists`, an existing topic is not an error.

    -1 stands for the broker's default of partitions or replication factor. With `validate_only`, the broker checks the
    request and creates nothing.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    topics = [NewTopic(name, partitions, replication_factor, config=dict(config)) for name in dict.fromkeys(names)]
    futures = admin.create_topics(topics, operation_timeout=REQUEST_TIMEOUT_S, validate_only=validate_only)
    if exists is not None:
        for name, future in list(futures.items()):
            problem = future.exception(timeout=REQUEST_TIMEOUT_S * 2)
            if isinstance(problem, KafkaException) and problem.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                exists(name)
                del futures[name]
    wait_all(futures, done=created)


def delete_topics(admin: "AdminClient", names: Sequence[str], *, deleted: Callable[[str], None]) -> None:
    """Delete topics; `deleted` is called with each name."""
    futures = admin.delete_topics(list(dict.fromkeys(names)), operation_timeout=REQUEST_TIMEOUT_S)
    wait_all(futures, done=deleted)


def add_partitions(admin: "AdminClient", name: str, total: int) -> None:
    """Add partitions to a topic until it has this many."""
    from confluent_kafka.admin import NewPartitions

    wait_all(admin.create_partitions([NewPartitions(name, total)], operation_timeout=REQUEST_TIMEOUT_S))


class RecordDeletion(NamedTuple):
    """The start of one partition's log, before and after records are deleted."""

    topic: str
    partition: int
    before: int
    after: int


def plan_record_deletion(
    admin: "AdminClient", name: str, partitions: Sequence[int] | None, position: Position
) -> list[RecordDeletion]:
    """Return the partitions that have records before a position."""
    (topic,) = describe_topics(admin, [name])
    known = {row["partition"]: row for row in topic.partitions}
    for index in partitions or ():
        if index not in known:
            raise unknown_partition(name, index, len(known))
    chosen = [
        (name, index)
        for index in (partitions or sorted(known))
        if known[index]["earliest"] is not None and known[index]["latest"] is not None
    ]
    match position:
        case AtOffset(offset):
            targets = dict.fromkeys(chosen, offset)
        case Latest():
            targets = {place: known[place[1]]["latest"] for place in chosen}
        case AtTime(timestamp_ms):
            found = first_offsets_since(admin, chosen, timestamp_ms)
            targets = {place: known[place[1]]["latest"] if at is None else at for place, at in found.items()}
        case _:
            raise ActionError("Cannot delete records before this position: use an offset, latest, an age or a time.")
    deletions = []
    for (_, index), target in sorted(targets.items()):
        earliest, latest = known[index]["earliest"], known[index]["latest"]
        if target > earliest:
            deletions.append(RecordDeletion(name, index, earliest, min(target, latest)))
    return deletions


def delete_records(admin: "AdminClient", offsets: Mapping[tuple[str, int], int]) -> None:
    """Delete the records of partitions before these offsets."""
    from confluent_kafka import TopicPartition

    wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
    futures = admin.delete_records(wanted, request_timeout=REQUEST_TIMEOUT_S)
    wait_all({f"{entry.topic}-{entry.partition}": future for entry, future in futures.items()})


def list_topics(admin: "AdminClient") -> list[Row]:
    """Return a row per topic."""
    names = sorted(admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics)
    return [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(partition.replicas) for partition in topic.partitions), default=0),
            "topic_id": str(topic.topic_id),
            "is_internal": topic.is_internal,
        }
        for name, topic in _describe(admin, names).items()
    ]


def describe_topics(admin: "AdminClient", names: Sequence[str]) -> list[TopicDescription]:
    """Return topics with a row per partition."""
    topics = _describe(admin, list(dict.fromkeys(names)))
    led = [
        (name, partition.id)
        for name, topic in topics.items()
        for partition in topic.partitions
        if partition.leader is not None
    ]
    earliest, latest = earliest_offsets(admin, led), latest_offsets(admin, led)
    return [
        TopicDescription(
            name,
            str(topic.topic_id),
            [
                _partition_row(name, topic, each, earliest.get((name, each.id)), latest.get((name, each.id)))
                for each in topic.partitions
            ],
        )
        for name, topic in topics.items()
    ]


def overridden_configs(admin: "AdminClient", name: str) -> list[str]:
    """Return the options that are set on a topic, as NAME=VALUE."""
    from confluent_kafka.admin import ConfigResource, ConfigSource

    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    entries = wait(admin.describe_configs([resource])[resource], about=name)
    topic_source = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return [f"{entry.name}={entry.value}" for entry in entries.values() if entry.source == topic_source]


def _describe(admin: "AdminClient", names: list[str]) -> dict[str, Any]:
    from confluent_kafka import TopicCollection

    if not names:
        return {}
    return wait_all(admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S))


def _partition_row(name: str, topic: Any, partition: Any, earliest: int | None, latest: int | None) -> Row:
    return {
        "topic": name,
        "topic_id": str(topic.topic_id),
        "partition": partition.id,
        "leader": partition.leader.id if partition.leader is not None else None,
        "replicas": [node.id for node in partition.replicas],
        "isr": [node.id for node in partition.isr],
        "earliest": earliest,
        "latest": latest,
        "offsets": None if earliest is None or latest is None else latest - earliest,
    }
