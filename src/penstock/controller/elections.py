"""Decisions on elections: requested, for leader rebalancing, and after changes of settings.

Pure. Calls leaders.py. Refuses: InvalidRequest for an unknown election type; per partition
UnknownTopicOrPartition, ElectionNotNeeded, PreferredLeaderNotAvailable, EligibleLeadersNotAvailable.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.config.settings import BrokerSettings
from penstock.controller.decision import ControllerDecision
from penstock.controller.leaders import Election, Living, Rules, change, partitions, settle
from penstock.metadata import delta
from penstock.metadata.image import BROKER, TOPIC, ConfigResource, Image, PartitionImage, TopicImage
from penstock.metadata.records import NO_CHANGE, ConfigRecord, MetadataRecord, PartitionChangeRecord
from penstock.model.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    Refusal,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NO_NODE, NodeId, TopicName

PREFERRED: Final = 0
UNCLEAN: Final = 1
ELECTIONS_PER_BATCH_MAX: Final = 1000

_ELECTION_SETTINGS: Final = ("min.insync.replicas", "unclean.leader.election.enable")
"""The topic settings that affect elections."""


@dataclass(frozen=True, slots=True)
class Elected:
    topic: TopicName
    partition: int
    refusal: Refusal | None


def decide_elections(
    image: Image, requested: Mapping[TopicName, Sequence[int]] | None, election_type: int, rules: Rules
) -> ControllerDecision[tuple[Elected, ...]]:
    """Decide on the requested partitions; None means all of them, and the reply omits those that need no election."""
    if election_type not in (PREFERRED, UNCLEAN):
        raise InvalidRequest(f"Unknown election type {election_type}")
    is_all = requested is None
    wanted: Iterable[tuple[TopicName, int]]
    if requested is None:
        wanted = [(topic.name, index) for topic, index, _ in partitions(image)]
    else:
        wanted = [(name, index) for name, indexes in requested.items() for index in dict.fromkeys(indexes)]
    records: list[MetadataRecord] = []
    results = []
    for name, index in wanted:
        try:
            records.append(_elect(image, name, index, election_type, rules))
        except ElectionNotNeeded as refusal:
            if not is_all:
                results.append(Elected(name, index, refusal))
        except Refusal as refusal:
            results.append(Elected(name, index, refusal))
        else:
            results.append(Elected(name, index, None))
    return ControllerDecision(records, tuple(results))


def _elect(image: Image, name: TopicName, index: int, election_type: int, rules: Rules) -> PartitionChangeRecord:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        raise UnknownTopicOrPartition(f"No such partition as {name}-{index}")
    partition = topic.partitions[index]
    preferred = election_type == PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_NODE:
        raise ElectionNotNeeded
    election = Election.PREFERRED if preferred else Election.UNCLEAN
    record = _record(image, topic, index, partition, election, rules)
    if record is None or record.leader == NO_CHANGE:
        raise PreferredLeaderNotAvailable if preferred else EligibleLeadersNotAvailable
    return record


def _record(
    image: Image, topic: TopicImage, index: int, partition: PartitionImage, election: Election, rules: Rules
) -> PartitionChangeRecord | None:
    settings = rules.topic(image, topic.name)
    after = settle(partition, partition, living=Living(image), settings=settings, election=election)
    return change(topic.id, index, partition, after)


def decide_balance(image: Image, rules: Rules) -> ControllerDecision[bool]:
    """Move leadership back to preferred replicas, limited in number; the reply is whether there may be more."""
    records: list[MetadataRecord] = []
    for topic, index, partition in partitions(image):
        if partition.leader == partition.replicas[0]:
            continue
        record = _record(image, topic, index, partition, Election.PREFERRED, rules)
        if record is not None and record.leader not in (NO_CHANGE, NO_NODE):
            records.append(record)
            if len(records) == ELECTIONS_PER_BATCH_MAX:
                return ControllerDecision(records, True)
    return ControllerDecision(records, False)


def effects_of_settings(
    image: Image, records: Sequence[MetadataRecord], settings: BrokerSettings, node_id: NodeId
) -> list[MetadataRecord]:
    """Return the effects of changed settings: elections that are now allowed, and a smaller ELR."""
    changed = [record for record in records if isinstance(record, ConfigRecord) and record.name in _ELECTION_SETTINGS]
    if not changed:
        return []
    _, after = delta.apply(image, changed, offset=image.offset, epoch=image.epoch)
    if any(record.resource_type == BROKER for record in changed):
        settings = settings.with_dynamic(
            cluster=after.config(ConfigResource(BROKER, "")), node=after.config(ConfigResource(BROKER, str(node_id)))
        )
        topics = list(image.topics)
    else:
        topics = [TopicName(record.resource_name) for record in changed if record.resource_type == TOPIC]
    rules = Rules(settings)
    settled = []
    for name in dict.fromkeys(topics):
        topic = image.topics[name]
        for index, partition in enumerate(topic.partitions):
            record = _record(after, topic, index, partition, Election.ONLINE, rules)
            if record is not None:
                settled.append(record)
    return [*settled]
