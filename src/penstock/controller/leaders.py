"""The new state of a partition when its brokers, replicas or settings change.

Pure. Every change of a partition goes through `settle`: it completes a reassignment if
possible, computes the eligible replicas (KIP-966), and elects a leader. `change` makes the
record. The rules are in docs/internals/controller.md. Refuses nothing: a partition without a
suitable replica is left without a leader.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from penstock.config.settings import BrokerSettings, TopicSettings, topic_settings
from penstock.metadata.image import RECOVERING, BrokerImage, Image, PartitionImage, TopicImage
from penstock.metadata.records import (
    LOST_DIRECTORY,
    NO_CHANGE,
    RESERVED_DIRECTORIES,
    UNASSIGNED_DIRECTORY,
    PartitionChangeRecord,
)
from penstock.model.ids import NO_NODE, NodeId, TopicName
from penstock.model.job import Job

Nodes = tuple[NodeId, ...]
PARTITIONS_PER_SLICE: Final = 300


class Election(Enum):
    """The kind of election: any clean leader, preferably the first replica, or an unclean one too."""

    ONLINE = auto()
    PREFERRED = auto()
    UNCLEAN = auto()


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that apply to elections."""

    settings: BrokerSettings

    def topic(self, image: Image, name: TopicName) -> TopicSettings:
        return topic_settings(self.settings, image.topic_config(name))


@dataclass(frozen=True, slots=True)
class Living:
    """The brokers that are alive in an image, with `joins` and `leaves` of the decision in progress."""

    image: Image
    joins: NodeId | None = None
    leaves: NodeId | None = None

    def serves(self, node_id: NodeId) -> bool:
        if node_id == self.leaves:
            return False
        broker = self.image.brokers.get(node_id)
        return broker is not None and (node_id == self.joins or can_serve(broker))

    def can_lead(self, partition: PartitionImage, node_id: NodeId) -> bool:
        return self.serves(node_id) and directory_online(self.image.brokers[node_id], partition, node_id)

    def can_write(self, node_id: NodeId) -> bool:
        broker = self.image.brokers.get(node_id)
        return broker is None or not broker.read_only

    def prefer_writable(self, nodes: Sequence[NodeId]) -> Sequence[NodeId]:
        """Return the nodes that can write; all of them if none can, because a read-only leader serves reads."""
        return [node_id for node_id in nodes if self.can_write(node_id)] or nodes


def can_serve(broker: BrokerImage) -> bool:
    """Return whether a broker may lead and be in the ISR."""
    return not broker.fenced and not broker.in_controlled_shutdown


def directory_of(partition: PartitionImage, node_id: NodeId) -> UUID:
    """Return the directory of a replica; unassigned if the partition predates directories."""
    if node_id not in partition.replicas or len(partition.directories) != len(partition.replicas):
        return UNASSIGNED_DIRECTORY
    return partition.directories[partition.replicas.index(node_id)]


def directory_online(broker: BrokerImage, partition: PartitionImage, node_id: NodeId) -> bool:
    return is_online(broker.log_dirs, directory_of(partition, node_id))


def is_online(log_dirs: Iterable[UUID], directory: UUID) -> bool:
    if directory.int < RESERVED_DIRECTORIES:
        return directory != LOST_DIRECTORY
    return directory in log_dirs


def default_directory(broker: BrokerImage | None) -> UUID:
    """Return the directory of a new replica, if known: a broker with several directories chooses one itself."""
    return broker.log_dirs[0] if broker is not None and len(broker.log_dirs) == 1 else UNASSIGNED_DIRECTORY


def effective_min_isr(settings: TopicSettings, replicas: Nodes) -> int:
    return min(settings.min_insync_replicas, len(replicas))


def settle(
    wanted: PartitionImage,
    before: PartitionImage,
    *,
    living: Living,
    settings: TopicSettings,
    election: Election = Election.ONLINE,
    untrusted: Nodes = (),
) -> PartitionImage:
    """Return the new state of a partition, without epochs. `untrusted` replicas have lost data and leave the ELR."""
    after = _complete_reassignment(_without_read_only(wanted, living), settings)
    eligible: Nodes = ()
    if len(after.isr) < effective_min_isr(settings, after.replicas):
        # With an ISR below min ISR nothing is committed, so former members of the ISR and ELR still have everything.
        held = dict.fromkeys((*before.eligible_leader_replicas, *before.isr))
        eligible = tuple(
            node_id
            for node_id in held
            if node_id in after.replicas and node_id not in after.isr and node_id not in untrusted
        )
    return _elect(replace(after, eligible_leader_replicas=eligible), before, living, settings, election)


def _without_read_only(partition: PartitionImage, living: Living) -> PartitionImage:
    """Remove read-only members from the ISR if another member can lead and write.

    They have all committed records, so that they may be eligible; but the high watermark must not wait for them.
    """
    if not any(living.can_write(node_id) and living.can_lead(partition, node_id) for node_id in partition.isr):
        return partition
    return replace(partition, isr=tuple(node_id for node_id in partition.isr if living.can_write(node_id)))


def _complete_reassignment(partition: PartitionImage, settings: TopicSettings) -> PartitionImage:
    adding, removing = partition.adding_replicas, partition.removing_replicas
    if not adding and not removing:
        return partition
    staying = tuple(node_id for node_id in partition.replicas if node_id not in removing)
    in_sync = tuple(node_id for node_id in partition.isr if node_id in staying)
    enough = max(1, effective_min_isr(settings, staying))
    if len(in_sync) < enough or any(node_id not in in_sync for node_id in adding):
        return partition
    return replace(
        with_replicas(partition, staying),
        isr=in_sync,
        adding_replicas=(),
        removing_replicas=(),
    )


def with_replicas(partition: PartitionImage, replicas: Nodes, image: Image | None = None) -> PartitionImage:
    """Return the partition with other replicas; old ones keep their directory, new ones get the broker's default."""
    return replace(
        partition,
        replicas=replicas,
        directories=tuple(
            directory_of(partition, node_id)
            if node_id in partition.replicas or image is None
            else default_directory(image.brokers.get(node_id))
            for node_id in replicas
        ),
    )


def _elect(
    after: PartitionImage, before: PartitionImage, living: Living, settings: TopicSettings, election: Election
) -> PartitionImage:
    leader = _clean_leader(after, living, election)
    if leader is not None:
        if leader in after.isr:
            return replace(after, leader=leader, last_known_elr=())
        eligible = tuple(node_id for node_id in after.eligible_leader_replicas if node_id != leader)
        if effective_min_isr(settings, after.replicas) <= 1:
            eligible = ()
        return replace(after, leader=leader, isr=(leader,), eligible_leader_replicas=eligible, last_known_elr=())
    leader = _unclean_leader(after, living, settings, election)
    if leader is not None:
        return replace(
            _with_directory(after, leader, living),
            leader=leader,
            isr=(leader,),
            eligible_leader_replicas=(),
            last_known_elr=(),
            leader_recovery_state=RECOVERING,
        )
    known = after.last_known_elr
    if not after.isr and before.leader != NO_NODE:
        known = (before.leader,)
    # A replica that has lost its data cannot lead by itself: an administrator has to decide. Nor can one that was
    # removed, even if it is added again: its log was deleted.
    known = tuple(
        node_id for node_id in known if node_id in after.replicas and directory_of(after, node_id) != LOST_DIRECTORY
    )
    return replace(after, leader=NO_NODE, last_known_elr=known)


def _clean_leader(partition: PartitionImage, living: Living, election: Election) -> NodeId | None:
    among = partition.isr or partition.eligible_leader_replicas
    can_lead = living.prefer_writable(
        [node_id for node_id in partition.replicas if node_id in among and living.can_lead(partition, node_id)]
    )
    if election is Election.PREFERRED and partition.replicas[0] in can_lead:
        return partition.replicas[0]
    if partition.leader in can_lead:
        return partition.leader
    return can_lead[0] if can_lead else None


def _unclean_leader(
    partition: PartitionImage, living: Living, settings: TopicSettings, election: Election
) -> NodeId | None:
    """Return the leader of an unclean election, which may lose committed records."""
    known = partition.last_known_elr
    if not partition.isr and not partition.eligible_leader_replicas and len(known) == 1:
        # All members of the ISR have stopped uncleanly, and flush.mode=os does not guarantee that their records were
        # on disk. The last leader is the best choice, and the only one of a single replica.
        last = known[0]
        if last in partition.replicas and living.can_lead(partition, last):
            return last
    if election is not Election.UNCLEAN and not settings.unclean_leader_election_enable:
        return None
    alive = [node_id for node_id in partition.replicas if living.serves(node_id)]
    # A replica that has lost its data leads only if an unclean election is requested.
    with_data = living.prefer_writable([node_id for node_id in alive if living.can_lead(partition, node_id)])
    if with_data:
        return with_data[0]
    return alive[0] if alive and election is Election.UNCLEAN else None


def _with_directory(partition: PartitionImage, leader: NodeId, living: Living) -> PartitionImage:
    """Return the partition with its leader in an online directory, which a leader with lost data is not in."""
    broker = living.image.brokers[leader]
    if directory_online(broker, partition, leader):
        return partition
    return assign(partition, leader, default_directory(broker))


def assign(partition: PartitionImage, node_id: NodeId, directory: UUID) -> PartitionImage:
    """Return the partition with one replica in another directory."""
    return replace(
        partition,
        directories=tuple(
            directory if replica == node_id else directory_of(partition, replica) for replica in partition.replicas
        ),
    )


def change(topic_id: UUID, index: int, before: PartitionImage, after: PartitionImage) -> PartitionChangeRecord | None:
    """Return the record of the change from one state to the other; None if they are equal."""
    fewer_replicas = any(node_id not in after.replicas for node_id in before.replicas)
    record = PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=_if_other(after.isr, before.isr),
        # A record with a leader begins a new leader epoch, which fences fetches of a removed replica.
        leader=after.leader if after.leader != before.leader or fewer_replicas else NO_CHANGE,
        replicas=_if_other(after.replicas, before.replicas),
        removing_replicas=_if_other(after.removing_replicas, before.removing_replicas),
        adding_replicas=_if_other(after.adding_replicas, before.adding_replicas),
        leader_recovery_state=(
            after.leader_recovery_state if after.leader_recovery_state != before.leader_recovery_state else -1
        ),
        eligible_leader_replicas=_if_other(after.eligible_leader_replicas, before.eligible_leader_replicas),
        last_known_elr=_if_other(after.last_known_elr, before.last_known_elr),
        directories=None if after.directories == before.directories else after.directories,
    )
    return None if record == PartitionChangeRecord(partition_id=index, topic_id=topic_id) else record


_state = attrgetter(
    "leader",
    "replicas",
    "isr",
    "eligible_leader_replicas",
    "last_known_elr",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "leader_recovery_state",
)
_changed_fields = tuple(
    each.name for each in fields(PartitionChangeRecord) if each.name not in ("partition_id", "topic_id")
)


def changing_all(
    image: Image, rules: Rules, decide: Callable[[PartitionImage, TopicSettings], PartitionImage]
) -> Job[list[PartitionChangeRecord]]:
    """Return the changes of the partitions for which `decide` returns another state.

    A broker that comes or leaves concerns thousands of partitions, most of which are in one of a few states: `decide`
    is called once for each of these. It must not depend on anything else, in particular not on epochs.
    """
    records: list[PartitionChangeRecord] = []
    # By settings, which topics with equal overrides share, and by state: the fields of the record.
    known: dict[int, tuple[TopicSettings, dict[Hashable, dict[str, Any] | None]]] = {}
    left = PARTITIONS_PER_SLICE
    for topic in image.topics.values():
        settings = rules.topic(image, topic.name)
        _, outcomes = known.setdefault(id(settings), (settings, {}))
        for index, partition in enumerate(topic.partitions):
            state = _state(partition)
            if state in outcomes:
                values = outcomes[state]
            else:
                record = change(topic.id, index, partition, decide(partition, settings))
                values = None if record is None else {name: getattr(record, name) for name in _changed_fields}
                outcomes[state] = values
            if values is not None:
                records.append(PartitionChangeRecord(partition_id=index, topic_id=topic.id, **values))
            left -= 1
            if not left:
                left = PARTITIONS_PER_SLICE
                yield None
    return records


def _if_other(after: Nodes, before: Nodes) -> Nodes | None:
    return None if after == before else after


def partitions(image: Image) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic, index, partition


def without(nodes: Nodes, node_id: NodeId) -> Nodes:
    return tuple(each for each in nodes if each != node_id)


def is_unclean(before: PartitionImage, record: PartitionChangeRecord) -> bool:
    """Return whether the record elects a leader that may lack committed records."""
    if record.leader in (NO_CHANGE, NO_NODE, *before.isr, *before.eligible_leader_replicas):
        return False
    # A clean leader may also be outside the ISR if the same record adds it and completes a reassignment.
    state = before.leader_recovery_state if record.leader_recovery_state < 0 else record.leader_recovery_state
    return state == RECOVERING
