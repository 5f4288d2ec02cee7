"""Decisions on brokers: registration, fencing and shutdown, and their effect on partitions.

Pure. The offset of a registration in the metadata log is the broker's epoch, so that a later process with the same id
always has a higher one. Decisions that concern all partitions are jobs (model/job.py). Calls leaders.py. sessions.py
knows whether the previous process is still alive.
Refuses: InconsistentClusterId, DuplicateBrokerRegistration, InvalidRegistration, UnsupportedVersion,
BrokerIdNotRegistered, StaleBrokerEpoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from penstock.config.settings import TopicSettings
from penstock.controller.decision import ControllerDecision
from penstock.controller.leaders import (
    Living,
    Rules,
    assign,
    changing_all,
    directory_of,
    is_online,
    partitions,
    settle,
    without,
)
from penstock.metadata import delta
from penstock.metadata.image import BrokerImage, Image, PartitionImage
from penstock.metadata.records import (
    LOST_DIRECTORY,
    RESERVED_DIRECTORIES,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.model.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from penstock.model.ids import NO_NODE, NodeId
from penstock.model.job import Job, finish

FENCE: Final = 1
UNFENCE: Final = -1
LEAVING: Final = 1
READ_ONLY: Final = 1
WRITABLE: Final = -1
NO_BROKER_EPOCH: Final = -1
FLUSH_FSYNC: Final = "fsync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The registration of a process; the incarnation id is new with every start.

    `previous_broker_epoch` is the epoch at its last clean shutdown, or -1.
    """

    node_id: NodeId
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...]
    cluster_id: str
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()
    previous_broker_epoch: int = NO_BROKER_EPOCH


def deciding_registration(
    image: Image, registration: Registration, *, cluster_id: str, rules: Rules, has_live_process: bool
) -> Job[ControllerDecision[int]]:
    """Register the process, fenced, and reply with its epoch.

    `has_live_process` is true if another process with this id has a session.
    """
    node_id = registration.node_id
    if registration.cluster_id != cluster_id:
        raise InconsistentClusterId(
            f"This is cluster {cluster_id}, but node {node_id} belongs to cluster {registration.cluster_id}."
        )
    current = image.brokers.get(node_id)
    same_process = current is not None and current.incarnation_id == registration.incarnation_id
    if has_live_process and not same_process:
        raise DuplicateBrokerRegistration(f"Another live process is registered as node {node_id}.")
    _check_directories(image, registration)
    _check_features(image, registration)
    records: list[MetadataRecord] = []
    if current is not None and same_process:
        epoch, fenced, leaving = current.epoch, current.fenced, current.in_controlled_shutdown
        read_only = current.read_only
    else:
        records.extend((yield from _previous_process_records(image, registration, current, rules)))
        epoch, fenced, leaving = image.offset + 1 + len(records), True, False
        # The first heartbeat reports whether the broker can write, before it is unfenced.
        read_only = False
    records.append(
        RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=registration.incarnation_id,
            broker_epoch=epoch,
            end_points=registration.end_points,
            features=registration.features,
            rack=registration.rack,
            fenced=fenced,
            in_controlled_shutdown=leaving,
            log_dirs=registration.log_dirs,
            read_only=read_only,
        )
    )
    return ControllerDecision(records, epoch)


def deciding_fencing(image: Image, node_id: NodeId, *, epoch: int, rules: Rules) -> Job[ControllerDecision[bool]]:
    """Fence the broker; the reply is whether it was unfenced and had this epoch."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced or broker.epoch != epoch:
        return ControllerDecision((), False)
    return ControllerDecision((yield from fencing(image, broker, rules)), True, is_atomic=False)


def fencing(image: Image, broker: BrokerImage, rules: Rules) -> Job[list[MetadataRecord]]:
    """Fence the broker and move its leaderships to other brokers.

    The broker is fenced last: if only the first records are committed, the next controller fences it again.
    """
    return [
        *(yield from removing_from_isrs(image, broker.node_id, rules)),
        BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=FENCE),
    ]


def unfencing(image: Image, broker: BrokerImage, rules: Rules) -> Job[list[MetadataRecord]]:
    living = Living(image, joins=broker.node_id)

    def decide(partition: PartitionImage, settings: TopicSettings) -> PartitionImage:
        if partition.leader != NO_NODE or broker.node_id not in partition.replicas:
            return partition
        return settle(partition, partition, living=living, settings=settings)

    return [
        BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=UNFENCE),
        *(yield from changing_all(image, rules, decide)),
    ]


def leaving(image: Image, broker: BrokerImage, rules: Rules) -> Job[list[MetadataRecord]]:
    """Begin the broker's controlled shutdown, and move its leaderships to other brokers.

    If only the first records are committed, the rest follows with the next heartbeat of the broker.
    """
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.node_id, broker_epoch=broker.epoch, in_controlled_shutdown=LEAVING
        ),
        *(yield from removing_from_isrs(image, broker.node_id, rules)),
    ]


def changing_read_only(image: Image, broker: BrokerImage, read_only: bool, rules: Rules) -> Job[list[MetadataRecord]]:
    """Record whether the broker can write; one that cannot leaves each ISR that has another member."""
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.node_id, broker_epoch=broker.epoch, read_only=READ_ONLY if read_only else WRITABLE
    )
    _, noted = delta.apply(image, [record], offset=image.offset, epoch=image.epoch)
    living = Living(noted)

    def decide(partition: PartitionImage, settings: TopicSettings) -> PartitionImage:
        if broker.node_id not in partition.isr:
            return partition
        return settle(partition, partition, living=living, settings=settings)

    return [record, *(yield from changing_all(image, rules, decide))]


def remove_from_isrs(image: Image, node_id: NodeId, rules: Rules) -> list[MetadataRecord]:
    return finish(removing_from_isrs(image, node_id, rules))


def removing_from_isrs(image: Image, node_id: NodeId, rules: Rules) -> Job[list[MetadataRecord]]:
    """Remove a broker from every ISR, and elect other leaders for the partitions it led."""
    living = Living(image, leaves=node_id)

    def decide(partition: PartitionImage, settings: TopicSettings) -> PartitionImage:
        if node_id != partition.leader and node_id not in partition.isr:
            return partition
        wanted = replace(partition, isr=without(partition.isr, node_id))
        return settle(wanted, partition, living=living, settings=settings)

    return [*(yield from changing_all(image, rules, decide))]


def decide_unregistration(image: Image, node_id: NodeId, rules: Rules) -> ControllerDecision[None]:
    """Unregister a broker. Its replicas stay assigned; data that only it has is not considered lost."""
    broker = image.brokers.get(node_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"Broker ID {node_id} is not currently registered")
    records = remove_from_isrs(image, node_id, rules)
    records.append(UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.epoch))
    return ControllerDecision(records, None)


def check_broker_epoch(image: Image, node_id: NodeId, epoch: int) -> BrokerImage:
    """Return the broker, or raise StaleBrokerEpoch if the epoch is not that of its current registration."""
    broker = image.brokers.get(node_id)
    if broker is None:
        raise StaleBrokerEpoch(f"No broker registration found for broker id {node_id}")
    if broker.epoch != epoch:
        raise StaleBrokerEpoch(f"Expected broker epoch {broker.epoch} for broker {node_id}, but got {epoch}")
    return broker


def _check_directories(image: Image, registration: Registration) -> None:
    log_dirs = registration.log_dirs
    if not log_dirs:
        raise InvalidRegistration("No directories specified in request")
    if any(directory.int < RESERVED_DIRECTORIES for directory in log_dirs):
        raise InvalidRegistration("Reserved directory ID in request")
    if len(dict.fromkeys(log_dirs)) != len(log_dirs):
        raise InvalidRegistration("Duplicate directory ID in request")
    for broker in image.brokers.values():
        for directory in log_dirs:
            if broker.node_id != registration.node_id and directory in broker.log_dirs:
                raise InvalidRegistration(f"Broker {broker.node_id} is already registered with directory {directory}")


def _check_features(image: Image, registration: Registration) -> None:
    supported = {feature.name: feature for feature in registration.features}
    for name, level in image.features.items():
        feature = supported.get(name)
        least, most = (0, 0) if feature is None else (feature.min_supported_version, feature.max_supported_version)
        if not least <= level <= most:
            raise UnsupportedVersion(
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {least} and {most}, inclusive."
            )


def _previous_process_records(
    image: Image, registration: Registration, current: BrokerImage | None, rules: Rules
) -> Job[Sequence[MetadataRecord]]:
    """Return the records for replicas that the previous process has lost, and for partitions that it led."""
    node_id = registration.node_id
    clean = current is not None and registration.previous_broker_epoch == current.epoch
    living = Living(image, leaves=node_id)

    def decide(partition: PartitionImage, settings: TopicSettings) -> PartitionImage:
        if node_id not in partition.replicas:
            return partition
        lost = not is_online(registration.log_dirs, directory_of(partition, node_id))
        trusted = not lost and (clean or settings.flush_mode == FLUSH_FSYNC)
        if trusted and partition.leader != node_id and node_id not in partition.isr:
            return partition
        wanted = replace(partition, isr=without(partition.isr, node_id))
        if lost:
            wanted = assign(wanted, node_id, LOST_DIRECTORY)
        return settle(wanted, partition, living=living, settings=settings, untrusted=() if trusted else (node_id,))

    return (yield from changing_all(image, rules, decide))


def leads_any(image: Image, node_id: NodeId) -> bool:
    return any(partition.leader == node_id for _, _, partition in partitions(image))
