"""An image in a file, `<end offset>-<epoch>.checkpoint`, in Kafka's snapshot format.

A header record, the image as metadata records, a footer record, all in record batches.
Written in slices to a temporary file, synced, renamed, and the folder synced: a file with this name is
complete. Later corruption shows in a checksum or in a missing footer.
Driven by `checkpointer.py`. Refuses an incomplete or corrupt file: Corruption.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from penstock.metadata import control
from penstock.metadata.delta import Builder
from penstock.metadata.image import EMPTY, Image, TopicImage
from penstock.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityPart,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    decode,
    encode,
)
from penstock.metadata.token_records import token_record
from penstock.metadata.voters import VoterSet
from penstock.model.errors import Corruption, Refusal
from penstock.model.ids import NO_NODE, LeaderEpoch, Offset
from penstock.ports.disk import Disk, File
from penstock.raft.messages import EpochEnd
from penstock.wire.batch import BatchHeader, iter_batches
from penstock.wire.records import Record, decode_batch, encode_batch

METADATA_VERSION = "metadata.version"
SLICE_RECORDS_MAX = 500
"""The number of records written per iteration of the event loop."""
PART_SUFFIX = ".part"

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class Snapshot(NamedTuple):
    image: Image
    timestamp: int
    """When the last record in it was written to the log."""
    voters: VoterSet | None = None
    """The voters in the log up to this point, if it names them."""
    size: int = 0
    """The size of the file that it was read from."""


def end_of(image: Image) -> EpochEnd:
    """Return the first offset that the image does not contain, and the epoch of the last that it does."""
    return EpochEnd(end_offset=Offset(image.offset + 1), epoch=image.epoch)


def file_name(image: Image) -> str:
    return f"{image.offset + 1:020d}-{image.epoch:010d}.checkpoint"


def name_of(end: EpochEnd) -> str:
    return f"{end.end_offset:020d}-{end.epoch:010d}.checkpoint"


def parse_name(name: str) -> EpochEnd | None:
    """Parse the name of a checkpoint; return None for any other file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return EpochEnd(end_offset=Offset(int(match[1])), epoch=LeaderEpoch(int(match[2])))


def first_records(features: Mapping[str, int]) -> list[MetadataRecord]:
    """Return the features of a new cluster; the metadata version comes first, as Kafka requires."""
    names = sorted(features, key=lambda name: (name != METADATA_VERSION, name))
    return [FeatureLevelRecord(name=name, feature_level=features[name]) for name in names]


def records_of(image: Image) -> Iterator[MetadataRecord]:
    """Yield records that create the image from nothing; the metadata version comes first, as Kafka requires."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield RegisterBrokerRecord(
            broker_id=broker.node_id,
            incarnation_id=broker.incarnation_id,
            broker_epoch=broker.epoch,
            end_points=broker.end_points,
            features=broker.features,
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            log_dirs=broker.log_dirs,
            read_only=broker.read_only,
        )
    for controller in image.controllers.values():
        yield RegisterControllerRecord(
            controller_id=controller.node_id,
            incarnation_id=controller.incarnation_id,
            end_points=controller.end_points,
            features=controller.features,
        )
    for topic in image.topics.values():
        yield from _topic_records(topic)
    for resource, values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    for entity, quotas in image.quotas.items():
        parts = tuple(QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity)
        for key, rate in quotas.items():
            yield ClientQuotaRecord(entity=parts, key=key, value=rate)
    for (name, mechanism), credential in image.credentials.items():
        yield UserScramCredentialRecord(
            name=name,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
    for acl_id, acl in image.acls.items():
        yield AccessControlEntryRecord(
            id=acl_id,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
    for token in image.tokens.values():
        yield token_record(token)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=NO_NODE, next_producer_id=image.next_producer_id)


def _topic_records(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for index, partition in enumerate(topic.partitions):
        yield PartitionRecord(
            partition_id=index,
            topic_id=topic.id,
            replicas=partition.replicas,
            isr=partition.isr,
            removing_replicas=partition.removing_replicas,
            adding_replicas=partition.adding_replicas,
            leader=partition.leader,
            leader_recovery_state=partition.leader_recovery_state,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            directories=partition.directories,
            eligible_leader_replicas=partition.eligible_leader_replicas or None,
            last_known_elr=partition.last_known_elr or None,
        )


def batches_of(snapshot: Snapshot) -> Iterator[bytes]:
    """Yield the content of the file, one batch at a time."""
    image, timestamp, voters, _ = snapshot
    offset = 0

    def batch(records: list[Record], *, is_control: bool) -> bytes:
        nonlocal offset
        encoded = encode_batch(records, base_offset=offset, leader_epoch=image.epoch, is_control=is_control)
        offset += len(records)
        return encoded

    head = [control.snapshot_header(timestamp=timestamp)]
    if voters is not None:
        head += [control.kraft_version(1, timestamp=timestamp), control.voters(voters, timestamp=timestamp)]
    yield batch(head, is_control=True)
    records = records_of(image)
    while part := [Record(timestamp=timestamp, value=encode(record)) for record in islice(records, SLICE_RECORDS_MAX)]:
        yield batch(part, is_control=False)
    yield batch([control.snapshot_footer(timestamp=timestamp)], is_control=True)


class SnapshotWriter:
    """The writer of one checkpoint, a batch per call, so that the event loop is not blocked."""

    def __init__(self, disk: Disk, folder: str, snapshot: Snapshot) -> None:
        self.name = file_name(snapshot.image)
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/{self.name}"
        self._batches = batches_of(snapshot)
        disk.remove(self._path + PART_SUFFIX)
        self._file: File = disk.open(self._path + PART_SUFFIX, create=True)
        self.size = 0
        """How much is written."""
        self._unwritten: bytes | None = None

    def write_slice(self) -> bool:
        """Write the next batch; return whether there was one. May be called again after an OSError."""
        if self._unwritten is None:
            self._unwritten = next(self._batches, None)
        if self._unwritten is None:
            return False
        self.size += self._file.write([self._unwritten], self.size)
        self._unwritten = None
        return True

    def finish(self, done: Callable[[OSError | None], None]) -> None:
        """Make the file durable, then rename it; call `done` with the error, if any."""

        def synced(error: OSError | None) -> None:
            try:
                self._file.close()
                if error is None:
                    self._disk.rename(self._path + PART_SUFFIX, self._path)
                    self._disk.sync_folder(self._folder)
            except OSError as problem:
                error = problem
            done(error)

        self._disk.sync_later(self._file, synced)


def load(disk: Disk, folder: str, name: str) -> Snapshot:
    """Read a whole checkpoint, or raise Corruption."""
    path = f"{folder}/{name}"
    end = parse_name(name)
    assert end is not None, name
    try:
        return read(disk.read_file(path), end)
    except (Refusal, Corruption) as problem:
        raise Corruption(f"{path}: {problem}") from problem


def read(content: bytes, end: EpochEnd) -> Snapshot:
    """Read the content of a checkpoint with this end; raise Corruption or a Refusal if it is not complete."""
    builder = Builder(EMPTY)
    timestamp: int | None = None
    voters: VoterSet | None = None
    whole = False
    for view in iter_batches(content):
        if whole:
            raise Corruption("there is data after the footer")
        is_control = BatchHeader.at(view).is_control
        for record in decode_batch(view):
            kind = control.control_type(record) if is_control else None
            if timestamp is None:
                if kind != control.SNAPSHOT_HEADER:
                    raise Corruption("the header is missing")
                timestamp = control.header_timestamp(record)
            elif kind is None:
                builder.replay(decode(record.value or b""))
            elif kind == control.KRAFT_VOTERS:
                voters = control.read_voters(record)
            whole = kind == control.SNAPSHOT_FOOTER
    if timestamp is None or not whole:
        raise Corruption("the footer is missing")
    _, image = builder.build(offset=Offset(end.end_offset - 1), epoch=end.epoch)
    return Snapshot(image, timestamp, voters, len(content))
