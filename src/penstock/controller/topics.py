"""Decisions on topics: creation, deletion, and additional partitions.

Pure. Uses model/topic.py and placement.py; the handlers with the
same names call it through controller.py. Each topic of a request is decided separately: a refused
one does not affect the others. Refuses with the errors and messages of Kafka's
controller, because users and tools search for them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Final
from uuid import UUID

from penstock.controller.decision import ControllerDecision
from penstock.controller.leaders import Living, can_serve, default_directory
from penstock.controller.placement import Replicas, placing
from penstock.metadata.image import TOPIC, Image, TopicImage
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.model.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    PolicyViolation,
    Refusal,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NodeId, PartitionIndex, TopicName
from penstock.model.job import Job
from penstock.model.topic import CLUSTER_METADATA, check_name, collision_key

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""A limit for the size of a request, whose metadata records are one atomic batch."""

CHECKED_PER_SLICE: Final = 200
RECORDED_PER_SLICE: Final = 500

VARIED_PIECES_MAX: Final = 6
"""A name with five separators has 32 variants, which are looked up in less time than all topics are visited."""

DEFAULT: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. With assignments, count and factor must be the default."""

    name: TopicName
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[PartitionIndex, Replicas], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationRules:
    """The broker's settings and other inputs for a creation."""

    partition_count: int
    replication_factor: int
    check_configs: Callable[[Mapping[str, str]], object]
    """Raises InvalidConfig if the configs of a topic are invalid."""
    new_id: Callable[[], UUID]
    random: Random


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    name: TopicName
    id: UUID
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTopic:
    name: TopicName
    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReference:
    """A topic by name or by id; both together are refused."""

    name: TopicName | None = None
    id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """The outcome of one deletion; `refusal` is None if the topic is deleted."""

    name: TopicName | None
    id: UUID | None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic to extend to `count` partitions in total; without assignments the controller places them."""

    name: TopicName
    count: int
    assignments: tuple[Replicas, ...] | None = None


Charge = Callable[[int], None]
"""Charges this many partition changes to the quota of the client; raises ThrottlingQuotaExceeded."""


def without_quota(count: int) -> None:
    """Charge nothing: for requests that are not made by a client."""


def deciding_create(
    image: Image,
    topics: Sequence[NewTopic],
    rules: CreationRules,
    *,
    validate_only: bool = False,
    charge: Charge = without_quota,
) -> Job[ControllerDecision[tuple[CreatedTopic | RefusedTopic, ...]]]:
    """Decide on each topic, in slices; the outcomes are in the order of the topics. Names must differ."""
    _bound_partitions(topics, rules.partition_count)
    records: list[MetadataRecord] = []
    outcomes: list[CreatedTopic | RefusedTopic] = []
    existing = _ExistingNames(image.topics)
    for topic in topics:
        try:
            created, its_records = yield from _creating(image, topic, rules, existing, charge)
        except Refusal as refusal:
            outcomes.append(RefusedTopic(name=topic.name, refusal=refusal))
        else:
            outcomes.append(created)
            records.extend(its_records)
    return ControllerDecision(() if validate_only else records, tuple(outcomes))


def decide_delete(
    image: Image, references: Sequence[TopicReference], *, charge: Charge = without_quota
) -> ControllerDecision[tuple[DeletedTopic, ...]]:
    """Decide on each reference. A topic with more than one reference is not deleted."""
    outcomes: list[DeletedTopic] = []
    records: list[MetadataRecord] = []
    counts = Counter(references)
    for reference, count in counts.items():
        try:
            topic = _resolve(image, reference, repeated=count > 1)
        except Refusal as refusal:
            outcomes.append(DeletedTopic(name=reference.name, id=reference.id, refusal=refusal))
            continue
        if reference.name is not None and TopicReference(id=topic.id) in counts:
            clash = InvalidRequest("The provided topic name maps to an ID that was already supplied.")
            outcomes.append(DeletedTopic(name=topic.name, id=topic.id, refusal=clash))
        elif reference.id is not None and TopicReference(name=topic.name) in counts:
            continue  # The reference by name in the same list carries the refusal for both.
        else:
            try:
                charge(len(topic.partitions))
            except Refusal as refusal:
                outcomes.append(DeletedTopic(name=topic.name, id=topic.id, refusal=refusal))
                continue
            outcomes.append(DeletedTopic(name=topic.name, id=topic.id))
            records.append(RemoveTopicRecord(topic_id=topic.id))
    return ControllerDecision(records, tuple(outcomes))


def deciding_add_partitions(
    image: Image,
    topics: Sequence[MorePartitions],
    *,
    random: Random,
    validate_only: bool = False,
    charge: Charge = without_quota,
) -> Job[ControllerDecision[tuple[Refusal | None, ...]]]:
    """Decide on each topic, in slices; None for each that gets its partitions."""
    records: list[MetadataRecord] = []
    outcomes: list[Refusal | None] = []
    for topic in topics:
        try:
            its_records = yield from _adding_partitions(image, topic, random, charge)
            if len(records) + len(its_records) > PARTITIONS_PER_REQUEST_MAX:
                raise PolicyViolation("Excessively large number of partitions per request.")
        except Refusal as refusal:
            outcomes.append(refusal)
        else:
            outcomes.append(None)
            records.extend(its_records)
    return ControllerDecision(() if validate_only else records, tuple(outcomes))


def _bound_partitions(topics: Sequence[NewTopic], default_count: int) -> None:
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.partition_count == DEFAULT:
            total += default_count
        else:
            total += max(topic.partition_count, 0)
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise PolicyViolation("Excessively large number of partitions per request.")


class _ExistingNames:
    """Search for topics whose names collide with a new one, without visiting all of them for each request."""

    def __init__(self, topics: Mapping[TopicName, TopicImage]) -> None:
        self._topics = topics
        self._by_key: dict[str, TopicName] | None = None

    def collision(self, name: TopicName) -> TopicName | None:
        """Return a topic whose name differs from this one only in '.' and '_'."""
        pieces = collision_key(name).split("_")
        if len(pieces) <= VARIED_PIECES_MAX:
            variants = (TopicName("".join(each)) for each in product(*_with_separators(pieces)))
            return next((each for each in variants if each in self._topics), None)
        if self._by_key is None:
            self._by_key = {collision_key(each): each for each in self._topics}
        return self._by_key.get(collision_key(name))


def _with_separators(pieces: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the alternatives for each piece of a name, except the last one with a separator after it."""
    for piece in pieces[:-1]:
        yield piece + ".", piece + "_"
    yield (pieces[-1],)


def _creating(
    image: Image, topic: NewTopic, rules: CreationRules, existing: _ExistingNames, charge: Charge
) -> Job[tuple[CreatedTopic, list[MetadataRecord]]]:
    check_name(topic.name)
    if topic.name == CLUSTER_METADATA:
        # Its first partition would take the folder of the metadata log.
        raise InvalidRequest(f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")
    if topic.name in image.topics:
        raise TopicAlreadyExists(f"Topic '{topic.name}' already exists.")
    collision = existing.collision(topic.name)
    if collision is not None:
        raise InvalidTopic(f"Topic '{topic.name}' collides with existing topic: {collision}")
    configs = _checked_configs(topic, rules)
    if topic.assignments:
        partitions = yield from _assigning(image, topic)
    else:
        partitions = yield from _placing(image, topic, rules)
    charge(len(partitions))
    topic_id = rules.new_id()
    created = CreatedTopic(
        name=topic.name,
        id=topic_id,
        partition_count=len(partitions),
        replication_factor=len(partitions[0]),
        configs=configs,
    )
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records.extend(
        ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    )
    records.extend((yield from _recording(image, topic_id, partitions, first_index=0)))
    return created, records


def _checked_configs(topic: NewTopic, rules: CreationRules) -> dict[str, str]:
    missing = [name for name, value in topic.configs if value is None]
    if missing:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(missing)}")
    configs = {name: value for name, value in topic.configs if value is not None}
    rules.check_configs(configs)
    return configs


def _placing(image: Image, topic: NewTopic, rules: CreationRules) -> Job[list[Replicas]]:
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.partition_count < DEFAULT or topic.partition_count == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    factor = rules.replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    count = rules.partition_count if topic.partition_count == DEFAULT else topic.partition_count
    try:
        placed = yield from placing(
            image.brokers.values(), partition_count=count, replication_factor=factor, random=rules.random
        )
        _refuse_leaderless(image, placed)
    except InvalidReplicationFactor as refusal:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): {refusal.message}"
        ) from refusal
    return placed


def _assigning(image: Image, topic: NewTopic) -> Job[list[Replicas]]:
    if topic.replication_factor != DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but replication factor was not set to -1.")
    if topic.partition_count != DEFAULT:
        raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
    by_index: dict[int, Replicas] = {}
    factor: int | None = None
    for index, replicas in topic.assignments:
        if len(by_index) % CHECKED_PER_SLICE == CHECKED_PER_SLICE - 1:
            yield None
        if index in by_index:
            raise InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {index}")
        _check_assignment(image, index, replicas, factor)
        factor = len(replicas)
        by_index[index] = replicas
    if any(index not in by_index for index in range(len(by_index))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return [by_index[index] for index in range(len(by_index))]


def _check_assignment(image: Image, index: int, replicas: Replicas, factor: int | None) -> None:
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    before: NodeId | None = None
    for node_id in sorted(replicas):
        if node_id not in image.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
            )
        if node_id == before:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {node_id} more than once."
            )
        before = node_id
    if factor is not None and len(replicas) != factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
            f"not consistent with previous partitions, which have {factor} replica(s)."
        )
    if not _in_sync(image, replicas):
        raise InvalidReplicaAssignment(
            "All brokers specified in the manual partition assignment for "
            f"partition {index} are fenced or in controlled shutdown."
        )


def _refuse_leaderless(image: Image, placed: Sequence[Replicas]) -> None:
    if any(not _in_sync(image, replicas) for replicas in set(placed)):
        raise InvalidReplicationFactor("All brokers are currently fenced or in controlled shutdown.")


def _adding_partitions(
    image: Image, topic: MorePartitions, random: Random, charge: Charge
) -> Job[list[PartitionRecord]]:
    current = image.topics.get(topic.name)
    if current is None:
        raise UnknownTopicOrPartition()
    count = len(current.partitions)
    if topic.count == count:
        raise InvalidPartitions(f"Topic already has {count} partition(s).")
    if topic.count < count:
        raise InvalidPartitions(
            f"The topic {topic.name} currently has {count} partition(s); {topic.count} would not be an increase."
        )
    added = topic.count - count
    if topic.assignments is not None and len(topic.assignments) != added:
        raise InvalidReplicaAssignment(
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(topic.assignments)} assignment(s) were specified."
        )
    # Checked before placement, which would take too long for billions of partitions.
    if added > PARTITIONS_PER_REQUEST_MAX:
        raise PolicyViolation("Excessively large number of partitions per request.")
    charge(added)
    factor = len(current.partitions[0].replicas)
    placed: Sequence[Replicas]
    if topic.assignments is not None:
        for place_in_list, replicas in enumerate(topic.assignments):
            if place_in_list % CHECKED_PER_SLICE == CHECKED_PER_SLICE - 1:
                yield None
            _check_assignment(image, count + place_in_list, replicas, factor)
        placed = topic.assignments
    else:
        placed = yield from placing(
            image.brokers.values(), partition_count=added, replication_factor=factor, random=random
        )
        _refuse_leaderless(image, placed)
    return (yield from _recording(image, current.id, placed, first_index=count))


def _recording(
    image: Image, topic_id: UUID, partitions: Sequence[Replicas], *, first_index: int
) -> Job[list[PartitionRecord]]:
    """Return the records of new partitions."""
    records: list[PartitionRecord] = []
    # Most partitions of a topic have the replicas of another one, and share its tuples.
    known: dict[Replicas, tuple[Replicas, Replicas, tuple[UUID, ...]]] = {}
    for index, replicas in enumerate(partitions, start=first_index):
        if len(records) % RECORDED_PER_SLICE == RECORDED_PER_SLICE - 1:
            yield None
        if replicas not in known:
            directories = tuple(default_directory(image.brokers[node_id]) for node_id in replicas)
            known[replicas] = replicas, _in_sync(image, replicas), directories
        shared, in_sync, directories = known[replicas]
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=shared,
                isr=in_sync,
                leader=in_sync[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=directories,
            )
        )
    return records


def _in_sync(image: Image, replicas: Replicas) -> Replicas:
    """Return the initial ISR: every replica on a live broker, because a new partition is empty."""
    serving = [node_id for node_id in replicas if can_serve(image.brokers[node_id])]
    return tuple(Living(image).prefer_writable(serving))


def _resolve(image: Image, reference: TopicReference, *, repeated: bool) -> TopicImage:
    if reference.name is not None and reference.id is not None:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    if reference.name is not None:
        if repeated:
            raise InvalidRequest("Duplicate topic name.")
        topic = image.topics.get(reference.name)
        if topic is None:
            raise UnknownTopicOrPartition()
        return topic
    if reference.id is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    if repeated:
        raise InvalidRequest("Duplicate topic id.")
    topic = image.topics_by_id.get(reference.id)
    if topic is None:
        raise UnknownTopicId("This server does not host this topic ID.")
    return topic
